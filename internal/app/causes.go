package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// markStore stores the records of unsafe producers; new ones are recorded in the ledger.
type markStore struct {
	bucket natsstore.Bucket[markRecord]
	ledger *ledger.Ledger
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
func (m markStore) Mark(ctx context.Context, producer string) (sluice.Unsafe, uint64, error) {
	r, revision, err := m.bucket.Get(ctx, streams.ProducerKey(producer))
	return r.mark(), revision, err
}

// all returns all marks.
func (m markStore) all(ctx context.Context) ([]sluice.Unsafe, error) {
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

// PutMark stores a mark.
func (m markStore) PutMark(ctx context.Context, is sluice.Unsafe, revision uint64) (uint64, error) {
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

// followMarks passes every mark, and then every change, to the guard until ctx is done.
func followMarks(ctx context.Context, marks markStore, guard *loopguard.Guard) error {
	return marks.bucket.Watch(ctx, ">", func(e natsstore.Entry[markRecord]) {
		switch e.Change {
		case natsstore.Set:
			guard.SetMark(e.Value.mark(), e.Revision)
		case natsstore.Removed:
			guard.RemoveMark(e.Key, e.Revision)
		case natsstore.CaughtUp:
			guard.CaughtUp()
		}
	})
}

// producers implements the API's operations on unsafe producers.
type producers struct {
	marks markStore
	guard *loopguard.Guard
}

// UnsafeProducers returns all marks.
func (p producers) UnsafeProducers(ctx context.Context) ([]sluice.Unsafe, error) {
	return p.marks.all(ctx)
}

// ClearProducer removes a mark after recording that in the ledger. Code Conflict if another loop is
// detected in the meantime.
func (p producers) ClearProducer(ctx context.Context, producer, by string) error {
	is, revision, err := p.marks.Mark(ctx, producer)
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Errorf(sluice.NotFound, "producer %q is not marked unsafe", producer)
	}
	if err != nil {
		return err
	}
	intent, err := p.marks.ledger.Intend(ctx, nil, ledger.Change{Actor: by, Action: sluice.ActionProducerClear, Resource: producer, Old: is})
	if err != nil {
		return err
	}
	if err := p.marks.bucket.Delete(ctx, streams.ProducerKey(producer), revision); err != nil {
		intent.Fail(ctx, err)
		return err
	}
	p.guard.ForgetMark(producer, revision)
	return nil
}

// remembered passes published events to the loop guard, which then needs no lookup of causes.
type remembered struct {
	publisher

	guard *loopguard.Guard
}

// Publish stores events and passes them to the loop guard.
func (r remembered) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	stored, err := r.publisher.Publish(ctx, namespace, events)
	r.guard.Published(namespace, events, stored)
	return stored, err
}
