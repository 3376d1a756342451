package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bounded is a JetStream that waits for an answer at most RequestTimeout, however much time the
// caller has, because a request that reaches a cluster during an election, or a paused leader, is
// never answered. It repeats reads for askPatience. It sends a write only once, because only the
// caller knows whether it may be repeated.
type bounded struct {
	jetstream.JetStream

	reachable func(context.Context) error // Store.Reachable
}

// Once executes act, a request that changes something, once, with a timeout of RequestTimeout. The
// result after a timeout is unknown: the change may have been made.
func Once[T any](ctx context.Context, act func(context.Context) (T, error)) (T, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= RequestTimeout {
		return act(ctx) // a second timer would change nothing
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return act(ctx)
}

// written is Once for a request that must not be sent any more once the caller has given up: it is
// sent only while there is a connection.
func written[T any](ctx context.Context, reachable func(context.Context) error, act func(context.Context) (T, error)) (T, error) {
	return Once(ctx, func(ctx context.Context) (answer T, err error) {
		if err := reachable(ctx); err != nil {
			return answer, err
		}
		return act(ctx)
	})
}

// Reachable waits for a connection for at most RequestTimeout. The client buffers a message that is
// published without a connection, and sends it after a reconnect, long after the publisher has
// given up: by then another replica may have done the same work, or the ID of an event may be
// outside the dedup window.
func (s *Store) Reachable(ctx context.Context) error {
	if s.nc.Status() != nats.RECONNECTING {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	for {
		again := s.Reconnected()
		if s.nc.Status() != nats.RECONNECTING {
			return nil
		}
		select {
		case <-again:
		case <-s.closed:
			return nats.ErrConnectionClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", nats.ErrConnectionReconnecting, context.Cause(ctx))
		}
	}
}

// AccountInfo returns the account's usage and its limits.
func (b bounded) AccountInfo(ctx context.Context) (*jetstream.AccountInfo, error) {
	return Asked(ctx, b.JetStream.AccountInfo)
}

// Stream returns a stream.
func (b bounded) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return Asked(ctx, func(ctx context.Context) (jetstream.Stream, error) { return b.JetStream.Stream(ctx, name) })
}

// KeyValue returns a bucket.
func (b bounded) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	return Asked(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return b.JetStream.KeyValue(ctx, name) })
}

// Consumer returns a consumer.
func (b bounded) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return Asked(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return b.JetStream.Consumer(ctx, stream, name)
	})
}

// CreateStream makes a stream.
func (b bounded) CreateStream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (jetstream.Stream, error) { return b.JetStream.CreateStream(ctx, config) })
}

// UpdateStream changes a stream.
func (b bounded) UpdateStream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (jetstream.Stream, error) { return b.JetStream.UpdateStream(ctx, config) })
}

// DeleteStream deletes a stream.
func (b bounded) DeleteStream(ctx context.Context, name string) error {
	_, err := written(ctx, b.reachable, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.JetStream.DeleteStream(ctx, name) })
	return err
}

// CreateConsumer makes a consumer.
func (b bounded) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (jetstream.Consumer, error) {
		return b.JetStream.CreateConsumer(ctx, stream, config)
	})
}

// UpdateConsumer changes a consumer.
func (b bounded) UpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (jetstream.Consumer, error) {
		return b.JetStream.UpdateConsumer(ctx, stream, config)
	})
}

// CreateOrUpdateConsumer makes or changes a consumer.
func (b bounded) CreateOrUpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (jetstream.Consumer, error) {
		return b.JetStream.CreateOrUpdateConsumer(ctx, stream, config)
	})
}

// DeleteConsumer deletes a consumer.
func (b bounded) DeleteConsumer(ctx context.Context, stream, name string) error {
	_, err := written(ctx, b.reachable, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.JetStream.DeleteConsumer(ctx, stream, name)
	})
	return err
}

// PublishMsg stores a message.
func (b bounded) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return written(ctx, b.reachable, func(ctx context.Context) (*jetstream.PubAck, error) { return b.JetStream.PublishMsg(ctx, msg, opts...) })
}
