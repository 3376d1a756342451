package natsstore

import (
	"context"
	"errors"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Instructions stores the records of one kind of instruction, by namespace and ID. Writes compare
// and set the revision of the record, like those of a Bucket.
type Instructions[T any] struct {
	kind   sluice.InstructionKind
	bucket Bucket[T]
}

// Instruction is a record with its namespace, ID and revision.
type Instruction[T any] struct {
	Namespace, ID string
	Value         T
	Revision      uint64
	Change        Change
}

// OpenInstructions returns the store of the records of a kind of instruction.
func OpenInstructions[T any](s *Store, kind sluice.InstructionKind) Instructions[T] {
	return Instructions[T]{kind, OpenBucket[T](s, streams.Instructions)}
}

// Get returns a record and its revision. Code NotFound if there is none.
func (i Instructions[T]) Get(ctx context.Context, namespace, id string) (T, uint64, error) {
	var none T
	if sluice.CheckNamespaceName(namespace) != nil || sluice.CheckInstructionID(i.kind, id) != nil {
		return none, 0, i.missing(id)
	}
	value, revision, err := i.bucket.Get(ctx, streams.InstructionKey(i.kind, namespace, id))
	if sluice.CodeOf(err) == sluice.NotFound {
		return none, 0, i.missing(id)
	}
	return value, revision, err
}

// Put stores a record and returns its new revision; with revision 0 it creates the record. Codes:
// InvalidRequest for an invalid ID; Conflict unless the stored revision is the given one.
func (i Instructions[T]) Put(ctx context.Context, namespace, id string, value T, revision uint64) (uint64, error) {
	if err := sluice.CheckInstructionID(i.kind, id); err != nil {
		return 0, err
	}
	return i.bucket.Put(ctx, streams.InstructionKey(i.kind, namespace, id), value, revision)
}

// Delete deletes a record. Code Conflict unless the stored revision is the given one; revision 0
// matches any.
func (i Instructions[T]) Delete(ctx context.Context, namespace, id string, revision uint64) error {
	return i.bucket.Delete(ctx, streams.InstructionKey(i.kind, namespace, id), revision)
}

// List returns the records of a namespace, "" for all namespaces, in the order of their last
// change.
func (i Instructions[T]) List(ctx context.Context, namespace string) ([]Instruction[T], error) {
	entries, err := i.bucket.List(ctx, streams.InstructionKeys(i.kind, namespace))
	if err != nil {
		return nil, err
	}
	all := make([]Instruction[T], len(entries))
	for at, e := range entries {
		all[at] = instructionOf(e)
	}
	return all, nil
}

// Watch calls f for the records and their changes, like Bucket.Watch.
func (i Instructions[T]) Watch(ctx context.Context, f func(Instruction[T])) error {
	return i.bucket.Watch(ctx, streams.InstructionKeys(i.kind, ""), func(e Entry[T]) { f(instructionOf(e)) })
}

func instructionOf[T any](e Entry[T]) Instruction[T] {
	one := Instruction[T]{Value: e.Value, Revision: e.Revision, Change: e.Change}
	one.Namespace, one.ID = streams.ParseInstructionKey(e.Key)
	return one
}

func (i Instructions[T]) missing(id string) error {
	return sluice.Errorf(sluice.NotFound, "%s %q not found", i.kind, id)
}

// DeleteInstructions deletes all appointments and watches of a namespace, and the positions of the
// watches.
func (n Namespaces) DeleteInstructions(ctx context.Context, namespace string) error {
	var errs []error
	for _, kind := range []sluice.InstructionKind{sluice.KindAppointment, sluice.KindWatch} {
		bucket := OpenBucket[struct{}](n.store, streams.Instructions)
		entries, err := bucket.List(ctx, streams.InstructionKeys(kind, namespace))
		errs = append(errs, err)
		for _, e := range entries {
			errs = append(errs, bucket.Delete(ctx, e.Key, 0))
		}
	}
	places := OpenBucket[struct{}](n.store, streams.Watches) // of the watches
	entries, err := places.List(ctx, streams.WatchKeys(namespace))
	errs = append(errs, err)
	for _, e := range entries {
		errs = append(errs, places.Delete(ctx, e.Key, 0))
	}
	return errors.Join(errs...)
}
