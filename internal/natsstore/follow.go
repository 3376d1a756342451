package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	followHeartbeat = 2 * time.Second // a server that is silent for twice as long is gone
	followExpiry    = 30 * time.Second
	followTidyUp    = time.Second // for deleting the consumer; the server does it later by itself
	followUnused    = time.Minute
)

// errGap tells that a message was lost on the way: what was followed has to be read again.
var errGap = errors.New("a message was lost on the way")

// follow calls each for the messages of a stream in order, as config chooses them, until it
// returns false or an error. It is called once without a message as soon as there is nothing
// to read. The consumer is short-lived and kept in memory; any trouble ends following with an
// error, and the caller decides where to go on.
func (s *Store) follow(ctx context.Context, stream string, config jetstream.ConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata) (more bool, err error),
) error {
	config.AckPolicy = jetstream.AckNonePolicy
	config.MemoryStorage, config.Replicas = true, 1
	config.InactiveThreshold = followUnused
	consumer, err := s.js.CreateConsumer(ctx, stream, config)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	info := consumer.CachedInfo()
	defer s.tidyUp(ctx, stream, info.Name)
	messages, err := consumer.Messages(jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	defer messages.Stop()
	if info.NumPending == 0 {
		if more, err := each(nil, nil); err != nil || !more {
			return err
		}
	}
	for next := uint64(1); ; next++ {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		if meta.Sequence.Consumer != next {
			return fmt.Errorf("read %s: %w", stream, errGap)
		}
		if more, err := each(msg, meta); err != nil || !more {
			return err
		}
	}
}

// tidyUp deletes a consumer that nobody reads any more. If that fails, the server deletes it
// when it has been unused for a while.
func (s *Store) tidyUp(ctx context.Context, stream, consumer string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTidyUp)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, stream, consumer) // see above
}
