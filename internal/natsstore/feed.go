package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Bounds of a page of a feed, and of what is on its way for all pages: what NATS has for a connection is bounded, 64 MiB by
// default, beyond which it is cut. Many pages at once are no faster than a few.
const (
	feedPage   = 1024
	feedBytes  = 2 << 20
	feedAhead  = 256 // messages
	feedAtOnce = 4   // pages
	feedTries  = 3   // of a page: on a busy server, what was asked for is now and then not answered

	feedBehind  = 40 // tries of a page with nothing in it because the replica is behind
	feedCatchUp = 50 * time.Millisecond
)

// FeedPage returns events behind a place, in order, of paths that the pattern may match, and up to where there are
// no others: upTo at least, unless there are more than a page has, or the replica that was read has not got them yet. The log
// reached upTo before the call. Messages that are no events are left out. Codes NotFound for the namespace;
// WindowExceeded, with oldest_available_seq and current_seq, if what comes behind the place is no longer kept.
func (s *Store) FeedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	for try, behind := 1, 0; ; try++ {
		events, reached, err = s.feedPage(ctx, ns, pattern, after, upTo)
		if behind++; errors.Is(err, errBehind) && behind < feedBehind {
			try-- // another consumer is maybe on another server
			pause(ctx, feedCatchUp)
			continue
		}
		if sluice.CodeOf(err) != sluice.Unavailable || try == feedTries || ctx.Err() != nil {
			return events, reached, err
		}
	}
}

// FeedTail is TailEvents for who must know whether it was given everything: code WindowExceeded, with oldest_available_seq and
// current_seq, if messages left the log before they came.
func (s *Store) FeedTail(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return s.tail(ctx, streams.EventsStream(ns), streams.EventsSubjects(ns), after, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
		seq := meta.Sequence.Stream
		if seq > after+1 { // removed from the middle, or by retention
			info, err := s.eventsInfo(ctx, ns)
			if err == nil {
				err = checkWindow(after, info.State)
			}
			if err != nil {
				return err
			}
		}
		after = seq
		e, err := s.stamps.eventOf(msg.Subject(), msg.Headers(), msg.Data(), seq, meta.Timestamp)
		if err != nil {
			return nil //nolint:nilerr // it is no event
		}
		return each(e)
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// feedPage reads a page once.
func (s *Store) feedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	info, err := s.eventsInfo(ctx, ns)
	if err == nil {
		err = checkWindow(after, info.State)
	}
	if err != nil {
		return nil, 0, err
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: streams.Superset(ns, pattern).Subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}
	bytes, whole, hole := 0, true, false
	reached = after
	err = s.follow(ctx, streams.EventsStream(ns), config, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if msg == nil {
			return false, nil
		}
		if meta.Sequence.Stream <= after {
			return meta.NumPending > 0, nil // the replica is behind, and began at its own end
		}
		hole = hole || meta.Sequence.Stream > reached+1
		reached = meta.Sequence.Stream
		if e, err := s.stamps.eventOf(msg.Subject(), msg.Headers(), msg.Data(), reached, meta.Timestamp); err == nil {
			events = append(events, e)
			bytes += len(e.Data)
		}
		if meta.NumPending == 0 {
			return false, nil
		}
		whole = reached < upTo && len(events) < feedPage && bytes < feedBytes
		return whole, nil
	}, jetstream.PullMaxMessagesWithBytesLimit(feedAhead, 2*int(s.nc.MaxPayload())))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", ns, storeError(ctx, err))
	}
	if hole && config.FilterSubject == streams.EventsSubjects(ns) {
		if info, err = s.eventsInfo(ctx, ns); err == nil {
			err = checkWindow(after, info.State) // retention has overtaken who read
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if whole && info.Cluster != nil && len(info.Cluster.Replicas) > 0 {
		whole, err = s.hasNone(ctx, ns, config.FilterSubject, reached, upTo)
	}
	switch {
	case err != nil:
		return nil, 0, err
	case whole:
		reached = max(reached, upTo)
	case len(events) == 0 && reached == after:
		return nil, 0, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "read %s: what answers is behind", ns), errBehind)
	}
	return events, reached, nil
}

// hasNone reports whether the leader has no message behind a place, up to a sequence. JetStream puts a consumer that is on one
// server on any that has the stream, and what it has not got yet looks there as if it were not.
func (s *Store) hasNone(ctx context.Context, ns, subject string, after, upTo uint64) (bool, error) {
	if after >= upTo {
		return true, nil
	}
	body, err := json.Marshal(directRequest{Seq: after + 1, Subject: subject})
	if err != nil {
		return false, fmt.Errorf("read request: %w", err)
	}
	resp, err := asked(ctx, askTimeout, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, msgGetSubject+streams.EventsStream(ns), body)
	})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", ns, storeError(ctx, err))
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(resp.Data, &answer); {
	case err != nil:
		return false, fmt.Errorf("read %s: %w", ns, err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return true, nil
	case answer.Error != nil:
		return false, fmt.Errorf("read %s: %w", ns, storeError(ctx, answer.Error))
	}
	return answer.Message.Seq > upTo, nil
}
