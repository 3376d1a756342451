package natsstore

import (
	"context"
	"errors"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Instructions keeps the records of one kind of instructions, by namespace and id. Writes are compare-and-set on
// the record's revision, as those of a Bucket.
type Instructions[T any] struct {
	kind   sluice.InstructionKind
	bucket Bucket[T]
}

// Instruction is a record with its place.
type Instruction[T any] struct {
	Namespace, ID string
	Value         T
	Revision      uint64
	Change        Change
}

// OpenInstructions returns the records of a kind of instructions.
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

// Put stores a record and returns its new revision; with revision 0 it is a new one. Codes InvalidRequest for the id; Conflict
// unless the stored revision is the given one.
func (i Instructions[T]) Put(ctx context.Context, namespace, id string, value T, revision uint64) (uint64, error) {
	if err := sluice.CheckInstructionID(i.kind, id); err != nil {
		return 0, err
	}
	return i.bucket.Put(ctx, streams.InstructionKey(i.kind, namespace, id), value, revision)
}

// Delete removes a record. Code Conflict unless the stored revision is the given one; with revision 0 any revision is removed.
func (i Instructions[T]) Delete(ctx context.Context, namespace, id string, revision uint64) error {
	return i.bucket.Delete(ctx, streams.InstructionKey(i.kind, namespace, id), revision)
}

// List returns the records of a namespace, "" for all, in the order of their last change.
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

// Watch tells of the records as Bucket.Watch does.
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

// DeleteInstructions deletes all instructions of a namespace, of every kind, and the positions of its watches.
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
