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

// Number of sequences of a stream that are read first; every further span is four times as wide, up
// to a limit, because the matching records of a span are kept in memory.
const firstSpan, widestSpan = 500, 32_000

// placeBits is the number of low bits of a place that contain the sequence of the message. The bits
// above contain the number of earlier records in the message: the place of the first record is the
// sequence. 2⁵⁶ messages are more than a stream gets; a block has at most 64 attempts, which need 6
// of the 8 bits above.
const placeBits = 56

// backwards reads the records of a subject from a place towards the beginning. A stream cannot be
// read backwards, so it is read in spans that begin ever earlier:
//
//	first                                                          last
//	│        ◄── 32,000 ──►│◄── 8,000 ──►│◄── 2,000 ──►│◄── 500 ──►│
type backwards[T any] struct {
	store   *Store
	stream  string
	subject string
	before  uint64                              // place before which it reads; 0: from the end
	limit   int                                 // maximum number of records
	split   func([]byte) iter.Seq[[]byte]       // returns the records in a message, in order; nil: a message is one record
	look    func(value *T) (wanted, older bool) // older: all records before it are unwanted
}

// read returns the wanted records, newest first, and the place before which there may be more, 0 at
// the end. The cost is O(messages of the subject from the place back to the last result). If there
// are too few results, it reads back to the first record that is too old, or to the beginning of
// the stream.
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

// bound returns the sequence of the message that contains the place before, and the number of
// records of the message before the place.
func (b *backwards[T]) bound() (seq, index uint64) {
	return b.before & (1<<placeBits - 1), b.before >> placeBits
}

// between returns the wanted records in the messages with begin ≤ sequence < end, oldest first, and
// whether some records are too old. If there are more than needed, it returns the newest ones.
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

// records returns the wanted records of a message, and whether some records are too old.
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
