package deliverystore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A consumer whose pattern starts with a wildcard also delivers the system events, which its
// subscription does not want (decision 0007). Without a replica that serves it they stay
// unacknowledged.

// systemEvents returns the number of system events in the log from a sequence on.
func (s *Store) systemEvents(ctx context.Context, namespace string, from uint64) (uint64, error) {
	stream := s.core.Names().EventsStream(namespace)
	c, err := s.core.JetStream().CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().SystemSubjects(namespace), DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: natsstore.Unused,
	})
	if err != nil {
		return 0, fmt.Errorf("count system events of %s: %w", namespace, err)
	}
	defer s.core.TidyUp(ctx, stream, c.CachedInfo().Name)
	return c.CachedInfo().NumPending, nil
}

// settleSystem acknowledges the system events that were delivered before a replica stopped serving
// the subscription: otherwise they would count as undelivered. Call it only while no replica serves
// the subscription: a source passes over them itself.
func (s *Store) settleSystem(ctx context.Context, sub *sluice.Subscription) error {
	if !sub.Pattern.WildFirst() {
		return nil
	}
	for _, want := range s.core.Names().PushConsumers(sub) {
		c, err := s.core.JetStream().Consumer(ctx, want.Stream, want.Name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("consumer %s: %w", want.Name, err)
		}
		if err := s.ackSystem(ctx, sub.Namespace, c.CachedInfo()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) ackSystem(ctx context.Context, namespace string, info *jetstream.ConsumerInfo) error {
	if info.NumAckPending == 0 {
		return nil
	}
	return s.core.Scan(ctx, info.Stream, jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().SystemSubjects(namespace), HeadersOnly: true,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: info.AckFloor.Stream + 1,
	}, func(_ *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		seq := meta.Sequence.Stream
		if seq > info.Delivered.Stream {
			return false, nil
		}
		return true, s.core.Conn().Publish(ackSubject(info, seq), []byte("+ACK"))
	})
}
