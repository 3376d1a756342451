package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	followHeartbeat = 2 * time.Second // a server that is silent for twice as long is gone
	followExpiry    = 30 * time.Second
	followTidyUp    = time.Second // for deleting the consumer; the server does it later by itself
	followUnused    = time.Minute
)

// What was followed has to be read again.
var (
	errGap       = errors.New("a message was lost on the way")
	errReconnect = errors.New("the connection is a new one")
)

// follow calls each for the messages of a stream in order, as config chooses them, until it
// returns false or an error. It is called once without a message as soon as there is nothing
// to read. The consumer is short-lived and kept in memory; any trouble ends following with an
// error, and the caller decides where to go on.
func (s *Store) follow(ctx context.Context, stream string, config jetstream.ConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata) (more bool, err error), opts ...jetstream.PullMessagesOpt,
) error {
	ctx, stop := s.untilReconnect(ctx)
	defer stop()
	config.AckPolicy = jetstream.AckNonePolicy
	config.MemoryStorage, config.Replicas = true, 1
	config.InactiveThreshold = followUnused
	consumer, err := s.js.CreateConsumer(ctx, stream, config)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	info := consumer.CachedInfo()
	defer s.tidyUp(ctx, stream, info.Name)
	messages, err := consumer.Messages(append(opts, jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))...)
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
		msg, meta, err := nextMessage(ctx, messages)
		if err == nil && meta.Sequence.Consumer != next {
			err = errGap
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		if more, err := each(msg, meta); err != nil || !more {
			return err
		}
	}
}

func nextMessage(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	msg, err := messages.Next(jetstream.NextContext(ctx))
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	meta, err := msg.Metadata()
	return msg, meta, err
}

// untilReconnect returns a context that ends with errReconnect when the connection is a new
// one: a consumer in memory may be gone then, which would show only by its silence.
func (s *Store) untilReconnect(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-broken:
			cancel(errReconnect)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// tidyUp deletes a consumer that nobody reads any more. If that fails, the server deletes it
// when it has been unused for a while.
func (s *Store) tidyUp(ctx context.Context, stream, consumer string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTidyUp)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, stream, consumer) // see above
}
