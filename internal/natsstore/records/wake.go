package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// WakeWatcher passes subscriptions to the wake engine.
type WakeWatcher struct {
	Subscriptions natsstore.Subscriptions
	Applied       *Applied
}

var _ wake.Watcher = WakeWatcher{}

// Watch calls change for every subscription, and then for every change.
func (w WakeWatcher) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	return w.Subscriptions.Watch(ctx, changes[*sluice.Subscription]{
		set: func(e natsstore.Entry[*sluice.Subscription]) {
			change(e.Key, e.Value)
			w.Applied.enter(e.Revision)
		},
		removed:  func(key string, _ uint64) { change(key, nil) },
		caughtUp: func() { change("", nil) },
	}.handle)
}

// wakeFloor is the last epoch of consumers whose records were removed.
type wakeFloor struct {
	Epoch uint64 `json:"epoch"`
}

// Wakes stores wake consumers. Consumers and floors are in one bucket, under different keys.
type Wakes struct {
	store     *natsstore.Store
	consumers natsstore.Bucket[wake.Consumer]
	floors    natsstore.Bucket[wakeFloor]
}

var _ wake.Records = Wakes{}

// NewWakes returns the records of wake consumers.
func NewWakes(store *natsstore.Store) Wakes {
	return Wakes{store, natsstore.OpenBucket[wake.Consumer](store, streams.Wakes), natsstore.OpenBucket[wakeFloor](store, streams.Wakes)}
}

// Get returns a record. A missing one is the zero entry, without an error.
func (r Wakes) Get(ctx context.Context, subscription string, path sluice.Path) (wake.Entry, error) {
	c, revision, err := r.consumers.Get(ctx, streams.WakeKey(subscription, path))
	if sluice.CodeOf(err) == sluice.NotFound {
		return wake.Entry{}, nil
	}
	return wake.Entry{Consumer: c, Revision: revision}, err
}

// Put stores a record. Code Unavailable if the store has no space for another one. Code Conflict
// unless the stored revision is the given one.
func (r Wakes) Put(ctx context.Context, subscription string, c wake.Consumer, revision uint64) (uint64, error) {
	if revision == 0 {
		if err := r.store.MayAdd(); err != nil {
			return 0, err
		}
	}
	return r.consumers.Put(ctx, streams.WakeKey(subscription, c.Path), c, revision)
}

// List returns a subscription's records.
func (r Wakes) List(ctx context.Context, subscription string) ([]wake.Entry, error) {
	entries, err := r.consumers.List(ctx, streams.WakeKeys(subscription))
	all := make([]wake.Entry, len(entries))
	for i, e := range entries {
		all[i] = wake.Entry{Consumer: e.Value, Revision: e.Revision}
	}
	return all, err
}

// Watch calls each for a subscription's records. Removals are reported by the removal of the
// subscription.
func (r Wakes) Watch(ctx context.Context, subscription string, each func(wake.Entry), caughtUp func()) error {
	return r.consumers.Follow(ctx, streams.WakeKeys(subscription), changes[wake.Consumer]{
		set:      func(e natsstore.Entry[wake.Consumer]) { each(wake.Entry{Consumer: e.Value, Revision: e.Revision}) },
		caughtUp: caughtUp,
	}.handle)
}

// Floor returns the epoch after which new consumers start.
func (r Wakes) Floor(ctx context.Context, subscription string) (uint64, error) {
	floor, _, err := r.floors.Get(ctx, streams.WakeFloorKey(subscription))
	if sluice.CodeOf(err) == sluice.NotFound {
		err = nil
	}
	return floor.Epoch, err
}

// Forget raises the floor and then removes a subscription's records up to a revision. It is
// idempotent, and never lowers the floor. The floor comes first: after a crash in between, no epoch
// is used twice.
func (r Wakes) Forget(ctx context.Context, subscription string, epoch, upTo uint64) error {
	for epoch > 0 {
		floor, revision, err := r.floors.Get(ctx, streams.WakeFloorKey(subscription))
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		if floor.Epoch >= epoch {
			break
		}
		_, err = r.floors.Put(ctx, streams.WakeFloorKey(subscription), wakeFloor{epoch}, revision)
		if err == nil {
			break
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return r.consumers.Clear(ctx, streams.WakeKeys(subscription), upTo)
}

// WakeSources opens the sources of wake subscriptions.
type WakeSources struct{ Store *deliverystore.Store }

var _ wake.Sources = WakeSources{}

// Open opens a subscription's source.
func (w WakeSources) Open(ctx context.Context, sub *sluice.Subscription) (wake.Source, error) {
	src, err := w.Store.OpenSource(ctx, sub)
	if err != nil {
		return nil, err
	}
	return src, nil
}
