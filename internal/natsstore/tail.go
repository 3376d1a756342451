package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// tailAhead is the maximum number of messages in flight to a long-lived reader. It is small because
// the reader may be slow and the messages large.
const tailAhead = 64

// ErrRecreated means that the stream was deleted and created again, or lost its last messages.
var ErrRecreated = errors.New("the log was recreated or lost its end")

// Tail calls each for the messages of a stream after a sequence, in order, first the stored and
// then the new ones, until each returns an error, ctx ends or reading fails. If the stream ends
// before the sequence, Tail starts at its end.
func (s *Store) Tail(ctx context.Context, stream, subjects string, after uint64, each func(*nats.Msg, *nats.MsgMetadata) error) error {
	handle, err := s.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, StoreError(ctx, err))
	}
	if last := handle.CachedInfo().State.LastSeq; after > last {
		s.opts.Log.WarnContext(ctx, "the log ends before the resume position",
			slog.String("stream", stream), slog.Uint64("after", after), slog.Uint64("last", last))
		after = last
	}
	return s.tail(ctx, handle, subjects, after, each)
}

// TailOn is Tail for a reader that knows that the stream contained the sequence. It returns
// ErrRecreated if the stream ends before it.
func (s *Store) TailOn(ctx context.Context, stream string, after uint64, each func(*nats.Msg, *nats.MsgMetadata) error) error {
	handle, err := s.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, StoreError(ctx, err))
	}
	if after > handle.CachedInfo().State.LastSeq {
		return ErrRecreated
	}
	return s.tail(ctx, handle, "", after, each)
}

func (s *Store) tail(ctx context.Context, handle jetstream.Stream, subjects string, after uint64, each func(*nats.Msg, *nats.MsgMetadata) error) error {
	stream := handle.CachedInfo().Config.Name
	if first := handle.CachedInfo().State.FirstSeq; after > 0 && after+1 < first {
		s.opts.Log.WarnContext(ctx, "messages left the log before they were read",
			slog.String("stream", stream), slog.Uint64("from", after+1), slog.Uint64("to", first-1))
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}
	asked := false
	return s.Follow(ctx, stream, config, tailAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if !asked { // later a recreation of the stream deletes the consumer
			asked = true
			if err := s.isStill(ctx, handle); err != nil {
				return false, err
			}
		}
		if msg == nil {
			return true, nil
		}
		return true, each(msg, meta)
	})
}

// isStill returns ErrRecreated if the stream was created again after handle was returned.
func (s *Store) isStill(ctx context.Context, handle jetstream.Stream) error {
	was := handle.CachedInfo()
	now, err := s.js.Stream(ctx, was.Config.Name)
	if err != nil {
		return fmt.Errorf("read %s: %w", was.Config.Name, StoreError(ctx, err))
	}
	if !now.CachedInfo().Created.Equal(was.Created) {
		return ErrRecreated
	}
	return nil
}
