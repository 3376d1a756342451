package deliverystore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// LastAttemptPlace returns the place of the last attempt in the stream, for AttemptsAfter.
func (s *Store) LastAttemptPlace(ctx context.Context) (uint64, error) {
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().Attempts())
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", s.core.Names().Attempts(), natsstore.StoreError(ctx, err))
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// AttemptsAfter returns attempts after a place, in the order of their recording, and the place up
// to which it has read. If there is none and q.Wait is set, it waits for one for at most q.Wait.
// The result may exceed the limit by less than a block. Pass the place as the next q.After. If
// q.Wait is over, it returns no attempts and the same place. If attempts after q.After have
// expired, it continues with the first that is stored.
func (s *Store) AttemptsAfter(ctx context.Context, q model.TailQuery) (found []sluice.Attempt, place uint64, err error) {
	last, err := s.LastAttemptPlace(ctx)
	if err != nil {
		return nil, q.After, err
	}
	place = min(q.After, last) // in case the stream was deleted and created again
	waits := ctx
	if q.Wait > 0 {
		limited, end := context.WithTimeout(ctx, q.Wait)
		defer end()
		waits = limited
	}
	err = s.core.Follow(waits, s.core.Names().Attempts(), jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().AttemptsSubject(q.Namespace, cmp.Or(q.Subscription, "*")),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: place + 1,
	}, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return q.Wait > 0 && len(found) == 0, nil
		}
		for line := range streams.SplitBlock(msg.Data) {
			var a sluice.Attempt
			if err := json.Unmarshal(line, &a); err != nil {
				return false, fmt.Errorf("attempt: %w", err)
			}
			found = append(found, a)
		}
		place = meta.Sequence.Stream
		return len(found) < q.Limit && meta.NumPending > 0, nil
	})
	if waits.Err() != nil && ctx.Err() == nil {
		return found, place, nil // q.Wait is over
	}
	return found, place, natsstore.StoreError(ctx, err)
}
