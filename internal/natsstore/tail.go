package natsstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// tailAhead is how many messages are on their way to a reader that stays for a long time: the reader may be
// slow, and the messages large.
const tailAhead = 64

// Tail calls each for the messages of a stream after a sequence, in their order and then as they come, until it returns an
// error, ctx ends or there is trouble. A stream that ends before the sequence is read from its end on.
func (s *Store) Tail(ctx context.Context, stream, subjects string, after uint64, each func(*nats.Msg, *nats.MsgMetadata) error) error {
	handle, err := s.js.Stream(ctx, stream)
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
	return s.Follow(ctx, stream, config, tailAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return true, nil
		}
		return true, each(msg, meta)
	})
}
