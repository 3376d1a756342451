package records

import "github.com/sluice-io/sluice/internal/natsstore"

// changes handles the entries of a watch. Functions that are nil are not called. set is required.
type changes[T any] struct {
	set        func(e natsstore.Entry[T])
	removed    func(key string, revision uint64)
	unreadable func(key string) // nil: the same as removed
	caughtUp   func()
}

// handle calls the function for an entry.
func (c changes[T]) handle(e natsstore.Entry[T]) {
	switch e.Change {
	case natsstore.Set:
		c.set(e)
	case natsstore.Removed:
		if e.Unreadable && c.unreadable != nil {
			c.unreadable(e.Key)
		} else if c.removed != nil {
			c.removed(e.Key, e.Revision)
		}
	case natsstore.CaughtUp:
		if c.caughtUp != nil {
			c.caughtUp()
		}
	}
}

// instructions handles the entries of a watch of instructions; key returns their keys.
func instructions[T any](c changes[T], key func(namespace, id string) string) func(natsstore.Instruction[T]) {
	return func(i natsstore.Instruction[T]) {
		c.handle(natsstore.Entry[T]{Key: key(i.Namespace, i.ID), Value: i.Value, Revision: i.Revision, Change: i.Change})
	}
}
