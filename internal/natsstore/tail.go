package natsstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// tailAhead is how many messages are on their way to somebody who reads for a long time: he may be
// slow, and they large.
const tailAhead = 64

// TailEvents calls each for the events of a namespace after a sequence, in the order of the log and then as they come,
// until it returns an error, ctx ends, or there is trouble; the caller then goes on after the
// last one it was given. Messages that are no events are left out. A log that does not reach the
// sequence, because it lost its end in a crash, is read from its end on.
func (s *Store) TailEvents(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	stream := streams.EventsStream(ns)
	return s.Tail(ctx, stream, streams.EventsSubjects(ns), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
		e, err := s.EventIn(msg, meta)
		if err != nil {
			return nil //nolint:nilerr // it is no event
		}
		return each(e)
	})
}

// Tail calls each for the messages of a stream after a sequence, in their order and then as they come, until it returns an
// error, ctx ends or there is trouble. A stream that ends before the sequence is read from its end on.
func (s *Store) Tail(ctx context.Context, stream, subjects string, after uint64, each func(*nats.Msg, *nats.MsgMetadata) error) error {
	handle, err := s.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, StoreError(ctx, err))
	}
	switch state := handle.CachedInfo().State; {
	case after > state.LastSeq:
		s.opts.Log.WarnContext(ctx, "the log ends before the resume position",
			slog.String("stream", stream), slog.Uint64("after", after), slog.Uint64("last", state.LastSeq))
		after = state.LastSeq
	case after > 0 && after+1 < state.FirstSeq:
		s.opts.Log.WarnContext(ctx, "messages left the log before they were read",
			slog.String("stream", stream), slog.Uint64("from", after+1), slog.Uint64("to", state.FirstSeq-1))
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}
	return s.follow(ctx, stream, config, tailAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return true, nil
		}
		return true, each(msg, meta)
	})
}

// WatchLogs tells of every namespace, when it was made, then of every change, until ctx ends;
// the zero time says that it is gone.
func (s *Store) WatchLogs(ctx context.Context, change func(name string, since time.Time)) error {
	return s.namespaces().Watch(ctx, ">", func(e Entry[sluice.Namespace]) {
		switch e.Change {
		case Set:
			change(e.Key, e.Value.CreatedAt)
		case Removed:
			change(e.Key, time.Time{})
		case CaughtUp:
		}
	})
}
