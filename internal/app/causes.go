package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/causes"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// markStore keeps the marks of unsafe producers; the ledger knows of each that is new.
type markStore struct {
	bucket natsstore.Bucket[markRecord]
	ledger *ledger.Ledger
}

// markRecord is how a mark lies in the bucket.
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

// followMarks tells the guard of every mark, then of every change, until ctx is done.
func followMarks(ctx context.Context, marks markStore, guard *causes.Guard) error {
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

// producers gives the API the marks.
type producers struct {
	marks markStore
	guard *causes.Guard
}

// UnsafeProducers returns all marks.
func (p producers) UnsafeProducers(ctx context.Context) ([]sluice.Unsafe, error) {
	return p.marks.all(ctx)
}

// ClearProducer removes a mark; the ledger knows of it first. A loop that is found meanwhile is a
// Conflict.
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

// remembered lets the guard know of what is published, so that it need not look for causes.
type remembered struct {
	publisher

	guard *causes.Guard
}

// Publish stores events and remembers them.
func (r remembered) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	stored, err := r.publisher.Publish(ctx, namespace, events)
	r.guard.Published(namespace, events, stored)
	return stored, err
}
