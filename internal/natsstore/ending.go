package natsstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ending checks, on a cluster, whether the end of a replica is the end of the stream, which only
// the leader knows. The decision for each message at which the replica says that none is pending:
//
//	leader has no more up to upTo   certain: pass it on as the last one
//	leader has more                 pass it on with NumPending 1, then end with ErrBehind
//
// upTo is sampled once, so that a stream that grows faster than it is read has an end, too.
type ending struct {
	store  *Store
	stream string
	config jetstream.ConsumerConfig
	each   Taker

	place   uint64 // sequence of the last message that was passed on
	upTo    uint64 // last sequence of the stream when the end of the replica was reached first
	sampled bool
	certain bool // the end of the stream was reached
}

// take passes a message to each, or nil if there is none.
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

// isBehind reports whether the leader has messages that were stored when the end of the replica was
// reached first, and were not passed on.
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

// lacks reports whether the leader has messages of a subject after a sequence, up to upTo.
func (e *ending) lacks(ctx context.Context, subject string, after uint64) (bool, error) {
	if at := e.config.OptStartTime; at != nil && e.place == 0 { // earlier messages are not requested
		last, err := e.store.LeadersMessage(ctx, e.stream, MessageRequest{Last: subject})
		return last.Seq > 0 && !last.Time.Before(*at), err
	}
	if after >= e.upTo {
		return false, nil
	}
	next, err := e.store.LeadersMessage(ctx, e.stream, MessageRequest{Seq: after + 1, Next: subject})
	return next.Seq > 0 && next.Seq <= e.upTo, err
}

// MessageRequest requests one message of a stream: the one with the sequence Seq, the first of the
// subject Next from Seq on, or the last of the subject Last.
type MessageRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Next string `json:"next_by_subj,omitempty"` // a subject, which may have wildcards
	Last string `json:"last_by_subj,omitempty"` // a subject
}

// StoredMessage is a message in the JSON format of JetStream.
type StoredMessage struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"` // when it was stored
	Encoded string    `json:"hdrs"` // its header, in base64
	Data    []byte    `json:"data"`
}

// Header returns the header of the message, nil if it has none.
func (m *StoredMessage) Header() (nats.Header, error) {
	if m.Encoded == "" {
		return nil, nil //nolint:nilnil // a message without headers has none
	}
	raw, err := base64.StdEncoding.DecodeString(m.Encoded)
	if err == nil {
		var header nats.Header
		if header, err = nats.DecodeHeadersMsg(raw); err == nil {
			return header, nil
		}
	}
	return nil, fmt.Errorf("header of message %d: %w", m.Seq, err)
}

// LeadersMessage returns a message as the leader of the stream has it; the zero value if there is
// none. It is repeated for askPatience.
func (s *Store) LeadersMessage(ctx context.Context, stream string, request MessageRequest) (StoredMessage, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message StoredMessage       `json:"message"`
	}
	body, err := json.Marshal(request)
	if err != nil {
		return StoredMessage{}, fmt.Errorf("read request: %w", err)
	}
	resp, err := Asked(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, s.API(msgGet+stream), body)
	})
	if err != nil {
		return StoredMessage{}, fmt.Errorf("read %s: %w", stream, StoreError(ctx, err))
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return StoredMessage{}, fmt.Errorf("read %s: %w", stream, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return StoredMessage{}, fmt.Errorf("read %s: %w", stream, StoreError(ctx, answer.Error))
	}
	return answer.Message, nil
}
