package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Marks stores the records of unsafe producers; new ones are recorded in the ledger.
type Marks struct {
	bucket natsstore.Bucket[markRecord]
	ledger *ledger.Ledger
}

// NewMarks returns the records of unsafe producers.
func NewMarks(store *natsstore.Store, book *ledger.Ledger) Marks {
	return Marks{natsstore.OpenBucket[markRecord](store, streams.Unsafe), book}
}

// markRecord is the stored form of a mark.
type markRecord struct {
	sluice.Unsafe

	Told *sluice.UnsafeTold `json:"told,omitempty"`
}

func (r markRecord) mark() sluice.Unsafe {
	is := r.Unsafe
	is.Told = r.Told
	return is
}

// Mark returns the mark of a producer.
func (m Marks) Mark(ctx context.Context, producer string) (sluice.Unsafe, uint64, error) {
	r, revision, err := m.bucket.Get(ctx, streams.ProducerKey(producer))
	return r.mark(), revision, err
}

// All returns all marks.
func (m Marks) All(ctx context.Context) ([]sluice.Unsafe, error) {
	entries, err := m.bucket.List(ctx, ">")
	if err != nil {
		return nil, err
	}
	all := make([]sluice.Unsafe, len(entries))
	for i := range entries {
		all[i] = entries[i].Value.mark()
	}
	return all, nil
}

// PutMark stores a mark. Code Conflict unless the stored revision is the given one. The mark is
// stored even if the ledger cannot be written.
func (m Marks) PutMark(ctx context.Context, is sluice.Unsafe, revision uint64) (uint64, error) {
	var intent *ledger.Intent
	if revision == 0 {
		intent = m.ledger.Note(ctx, nil, ledger.Change{Actor: sluice.ActorSystem, Action: sluice.ActionProducerMark, Resource: is.Producer, New: is})
	}
	stored, err := m.bucket.Put(ctx, streams.ProducerKey(is.Producer), markRecord{is, is.Told}, revision)
	if err != nil {
		intent.Fail(ctx, err)
	}
	return stored, err
}

// DeleteMark removes a mark. Code Conflict unless the stored revision is the given one.
func (m Marks) DeleteMark(ctx context.Context, producer string, revision uint64) error {
	return m.bucket.Delete(ctx, streams.ProducerKey(producer), revision)
}

// Guard is kept current with the marks.
type Guard interface {
	SetMark(mark sluice.Unsafe, revision uint64)
	RemoveMark(producer string, revision uint64)
	CaughtUp()
}

// Follow passes every mark, and then every change, to the guard until ctx is done.
func (m Marks) Follow(ctx context.Context, guard Guard) error {
	return m.bucket.Watch(ctx, ">", changes[markRecord]{
		set:      func(e natsstore.Entry[markRecord]) { guard.SetMark(e.Value.mark(), e.Revision) },
		removed:  guard.RemoveMark,
		caughtUp: guard.CaughtUp,
	}.handle)
}
