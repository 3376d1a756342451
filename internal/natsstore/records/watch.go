package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Watches stores watches and their progress.
type Watches struct {
	natsstore.Instructions[watch.Stored]

	Progress natsstore.Bucket[watch.Record]
}

// NewWatches returns the records of watches.
func NewWatches(store *natsstore.Store) Watches {
	return Watches{
		Instructions: natsstore.OpenInstructions[watch.Stored](store, sluice.KindWatch),
		Progress:     natsstore.OpenBucket[watch.Record](store, streams.Watches),
	}
}

// Watch calls change for every watch.
func (w Watches) Watch(ctx context.Context, change func(key string, w *watch.Stored)) error {
	return w.Instructions.Watch(ctx, instructions(changes[watch.Stored]{
		set: func(e natsstore.Entry[watch.Stored]) {
			e.Value.Revision = e.Revision
			change(e.Key, &e.Value)
		},
		removed: func(key string, _ uint64) { change(key, nil) },
	}, streams.WatchKey))
}

// All returns the stored watches of a namespace. Cancelled ones with a pending announcement are
// among them.
func (w Watches) All(ctx context.Context, namespace string) ([]watch.Stored, error) {
	entries, err := w.List(ctx, namespace)
	all := make([]watch.Stored, len(entries))
	for i, e := range entries {
		all[i] = e.Value
		all[i].Revision = e.Revision
	}
	return all, err
}

// Record returns the progress of a watch. Code NotFound if there is none.
func (w Watches) Record(ctx context.Context, namespace, id string) (watch.Record, error) {
	record, _, err := w.Progress.Get(ctx, streams.WatchKey(namespace, id))
	return record, err
}

// Records returns a lookup of the progress of a namespace's watches.
func (w Watches) Records(ctx context.Context, namespace string) (func(id string) watch.Record, error) {
	entries, err := w.Progress.List(ctx, streams.WatchKeys(namespace))
	all := make(map[string]watch.Record, len(entries))
	for _, e := range entries {
		all[e.Key] = e.Value
	}
	return func(id string) watch.Record { return all[streams.WatchKey(namespace, id)] }, err
}

// Forget removes the progress of a watch.
func (w Watches) Forget(ctx context.Context, namespace, id string) error {
	return w.Progress.Delete(ctx, streams.WatchKey(namespace, id), 0)
}
