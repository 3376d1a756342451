package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// How many sequences of a stream are looked at first; every further look back is four times as
// wide, up to a bound: the messages of a span are held.
const firstSpan, widestSpan = 2000, 32_000

// backwards reads a subject's records from a place on towards the beginning.
type backwards[T any] struct {
	store   *Store
	stream  string
	subject string
	before  uint64                              // only the part before; 0: all
	limit   int                                 // at most so many
	look    func(value *T) (wanted, older bool) // older: the part before is not wanted either
}

// read returns the records that are wanted, newest first, and the place before which there may
// be more, 0 at the end.
func (b *backwards[T]) read(ctx context.Context) ([]model.Placed[T], uint64, error) {
	stream, err := b.store.core.JetStream().Stream(ctx, b.stream)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: %w", b.stream, natsstore.StoreError(ctx, err))
	}
	state := stream.CachedInfo().State
	end := state.LastSeq + 1
	if b.before > 0 {
		end = min(end, b.before)
	}
	var found []model.Placed[T] // newest first
	for span := uint64(firstSpan); end > state.FirstSeq && len(found) <= b.limit; span = min(4*span, widestSpan) {
		begin := max(state.FirstSeq, end-min(end, span))
		part, older, err := b.between(ctx, begin, end)
		if err != nil {
			return nil, 0, err
		}
		for i := range part {
			found = append(found, part[len(part)-1-i])
		}
		end = begin
		if older {
			break
		}
	}
	if len(found) <= b.limit {
		return found, 0, nil
	}
	found = found[:b.limit]
	return found, found[b.limit-1].Place, nil
}

// between returns the records with begin ≤ place < end, oldest first, and whether some of the
// span are too old.
func (b *backwards[T]) between(ctx context.Context, begin, end uint64) (found []model.Placed[T], older bool, err error) {
	err = b.store.core.Scan(ctx, b.stream, jetstream.ConsumerConfig{
		FilterSubject: b.subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, begin),
	}, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream >= end {
			return false, nil
		}
		var value T
		if err := json.Unmarshal(msg.Data, &value); err != nil {
			return false, fmt.Errorf("%s %d: %w", b.stream, meta.Sequence.Stream, err)
		}
		wanted, old := b.look(&value)
		older = older || old
		if wanted {
			found = append(found, model.Placed[T]{Value: value, Place: meta.Sequence.Stream})
		}
		return true, nil
	})
	return found, older, err
}
