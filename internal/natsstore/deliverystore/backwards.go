package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// How many sequences of a stream are looked at first; every further look back is four times as
// wide, up to a bound: the messages of a span are held.
const firstSpan, widestSpan = 500, 32_000

// placeBits are the bits of a place that are a message's sequence. The bits above count the records that are before it in the
// message: the place of a message's first record is the sequence.
const placeBits = 56

// backwards reads a subject's records from a place on towards the beginning.
type backwards[T any] struct {
	store   *Store
	stream  string
	subject string
	before  uint64                              // only the part before; 0: all
	limit   int                                 // at most so many
	split   func([]byte) iter.Seq[[]byte]       // the records in a message, in order; nil: it is one
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
	if seq, index := b.bound(); b.before > 0 {
		end = min(end, seq+min(index, 1))
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

// bound returns the message of the place that is read from, and the number of its records that are before the place.
func (b *backwards[T]) bound() (seq, index uint64) {
	return b.before & (1<<placeBits - 1), b.before >> placeBits
}

// between returns the records in the messages from begin up to end, without it, oldest first, and whether some of the span are too
// old. Of more than are needed it returns the newest.
func (b *backwards[T]) between(ctx context.Context, begin, end uint64) (found []model.Placed[T], older bool, err error) {
	err = b.store.core.Scan(ctx, b.stream, jetstream.ConsumerConfig{
		FilterSubject: b.subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, begin),
	}, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream >= end {
			return false, nil
		}
		part, old, err := b.records(msg.Data, meta.Sequence.Stream)
		if err != nil {
			return false, fmt.Errorf("%s %d: %w", b.stream, meta.Sequence.Stream, err)
		}
		older = older || old
		if found = append(found, part...); len(found) > 2*(b.limit+1) {
			found = slices.Delete(found, 0, len(found)-b.limit-1)
		}
		return true, nil
	})
	return found, older, err
}

// records returns the records of a message that are wanted, and whether some are too old.
func (b *backwards[T]) records(message []byte, seq uint64) (found []model.Placed[T], older bool, err error) {
	split := b.split
	if split == nil {
		split = func(message []byte) iter.Seq[[]byte] { return slices.Values([][]byte{message}) }
	}
	last, most := b.bound()
	place := seq
	for record := range split(message) {
		if seq == last && place>>placeBits >= most {
			break
		}
		var value T
		if err := json.Unmarshal(record, &value); err != nil {
			return nil, false, err
		}
		wanted, old := b.look(&value)
		older = older || old
		if wanted {
			found = append(found, model.Placed[T]{Value: value, Place: place})
		}
		place += 1 << placeBits
	}
	return found, older, nil
}
