package natsstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/streams"
)

// ending finds out, on a cluster, whether what looks like the end of a stream is one: the leader knows.
type ending struct {
	store  *Store
	stream string
	config jetstream.ConsumerConfig
	each   Taker

	place   uint64 // of the last message that was taken
	upTo    uint64 // where the stream ended when its end was met first
	sampled bool
	certain bool // it was met
}

// take hands on a message, or that there is none.
func (e *ending) take(ctx context.Context, msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
	if msg != nil {
		e.place = meta.Sequence.Stream
	}
	if e.certain || msg != nil && meta.NumPending > 0 {
		return e.each(msg, meta)
	}
	behind, err := e.isBehind(ctx)
	switch {
	case err != nil:
		return false, err
	case !behind:
		e.certain = true
		return e.each(msg, meta)
	case msg == nil:
		return false, ErrBehind
	}
	known := *meta
	known.NumPending = 1 // or more
	if more, err := e.each(msg, &known); err != nil || !more {
		return false, err
	}
	return false, ErrBehind
}

// isBehind reports whether the leader has messages that were stored when the end was met first, and were not taken.
func (e *ending) isBehind(ctx context.Context) (bool, error) {
	if !e.sampled {
		handle, err := e.store.js.Stream(ctx, e.stream)
		if err != nil {
			return false, fmt.Errorf("read %s: %w", e.stream, err)
		}
		e.upTo, e.sampled = handle.CachedInfo().State.LastSeq, true
	}
	after := e.place
	if e.config.OptStartSeq > 0 {
		after = max(after, e.config.OptStartSeq-1)
	}
	filters := e.config.FilterSubjects
	if len(filters) == 0 {
		filters = []string{cmp.Or(e.config.FilterSubject, ">")}
	}
	for _, subject := range filters {
		if behind, err := e.lacks(ctx, subject, after); behind || err != nil {
			return behind, err
		}
	}
	return false, nil
}

// lacks reports whether the leader has messages of a subject behind a place.
func (e *ending) lacks(ctx context.Context, subject string, after uint64) (bool, error) {
	if at := e.config.OptStartTime; at != nil && e.place == 0 { // what lies before that is not wanted
		last, err := e.store.LeadersLast(ctx, e.stream, subject)
		return last.Seq > 0 && !last.Time.Before(*at), err
	}
	if after >= e.upTo {
		return false, nil
	}
	next, err := e.store.leadersNextIn(ctx, e.stream, subject, after+1)
	return next.Seq > 0 && next.Seq <= e.upTo, err
}

// lastIn asks for the last message of a subject.
type lastIn struct {
	Subject string `json:"last_by_subj"`
}

// nextIn asks for the first message of a subject from a sequence on.
type nextIn struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"next_by_subj"`
}

// MessageHead is the place of a message, when it was stored, and its headers, in base64.
type MessageHead struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Header string    `json:"hdrs"`
}

// LeadersLast returns the last message of a subject in a stream, zero if there is none.
func (s *Store) LeadersLast(ctx context.Context, stream, subject string) (MessageHead, error) {
	return s.leadersHead(ctx, stream, lastIn{subject})
}

// leadersNextIn returns the first message of a subject in a stream from a sequence on, zero if there is none.
func (s *Store) leadersNextIn(ctx context.Context, stream, subject string, from uint64) (MessageHead, error) {
	return s.leadersHead(ctx, stream, nextIn{max(from, 1), subject})
}

// leadersHead asks the leader of a stream for a message.
func (s *Store) leadersHead(ctx context.Context, stream string, request any) (MessageHead, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message MessageHead         `json:"message"`
	}
	body, err := json.Marshal(request)
	if err != nil {
		return MessageHead{}, fmt.Errorf("read request: %w", err)
	}
	resp, err := Asked(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, MsgGetSubject+stream, body)
	})
	if err != nil {
		return MessageHead{}, fmt.Errorf("read %s: %w", stream, StoreError(ctx, err))
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return MessageHead{}, fmt.Errorf("read %s: %w", stream, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return MessageHead{}, fmt.Errorf("read %s: %w", stream, StoreError(ctx, answer.Error))
	}
	return answer.Message, nil
}

// LeadersNextSeq returns the sequence of the next message of a subject, 0 if there is none.
func (s *Store) LeadersNextSeq(ctx context.Context, ns, subject string, from uint64) (uint64, error) {
	next, err := s.LeadersNextHead(ctx, ns, subject, from)
	return next.Seq, err
}

// LeadersNextHead is leadersNextSeq, with the headers.
func (s *Store) LeadersNextHead(ctx context.Context, ns, subject string, from uint64) (MessageHead, error) {
	return s.leadersNextIn(ctx, streams.EventsStream(ns), subject, from)
}
