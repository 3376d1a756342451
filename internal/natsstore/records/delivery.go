package records

import (
	"context"
	"errors"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Sources opens the sources of deliveries.
type Sources struct{ Store *deliverystore.Store }

// Open opens the subscription's source.
func (s Sources) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	src, err := s.Store.OpenSource(ctx, sub)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// Look searches for events that were deleted from the log before they were delivered to the
// subscription.
func (s Sources) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	return s.Store.Look(ctx, sub, wanted, lost)
}

// Arrivals passes the shared reader to the delivery engine.
type Arrivals struct{ *fanout.Router }

var _ delivery.Arrivals = Arrivals{}

// Join lets the shared reader serve a subscription.
func (a Arrivals) Join(sub *sluice.Subscription, wake func()) delivery.Seat {
	return a.Router.Join(sub, wake)
}

// SharedSources opens the sources of deliveries from the shared reader, or those of subscriptions
// with their own consumers. A subscription is served by one of the two at a time. It can move to
// the other when its source ends.
type SharedSources struct {
	Router *fanout.Router
	Own    delivery.Sources
}

var _ delivery.Sources = SharedSources{}

// Open opens the subscription's source.
func (s SharedSources) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	src, moved, err := s.Router.Open(sub)
	if err != nil {
		return nil, err
	}
	if moved == nil {
		return src, nil
	}
	own, err := s.Own.Open(ctx, sub)
	if err != nil {
		return nil, err
	}
	return movable(own, moved), nil
}

// ownSource is the source of a subscription with its own consumers. It ends when the shared reader
// is to serve the subscription.
type ownSource struct {
	delivery.Source

	ended chan struct{}
	moved <-chan struct{}
}

func movable(own delivery.Source, moved <-chan struct{}) delivery.Source {
	s := ownSource{own, make(chan struct{}), moved}
	go func() { // ends with the source
		defer close(s.ended)
		select {
		case <-moved:
		case <-own.Ended():
		}
	}()
	return s
}

// Ended returns a channel that is closed when the source has to be opened again.
func (s ownSource) Ended() <-chan struct{} { return s.ended }

// Moved reports whether the shared reader is to serve the subscription now.
func (s ownSource) Moved() bool {
	select {
	case <-s.moved:
		return true
	default:
		return false
	}
}

// Look searches for events that were deleted from the log before they were delivered to the
// subscription. The shared reader does that itself.
func (s SharedSources) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if s.Router.Serves(sub) {
		return nil
	}
	return s.Own.Look(ctx, sub, wanted, lost)
}

// Subscriptions passes subscriptions to the delivery engine and the quota counters. All fields are
// required. Watch calls the functions from one goroutine, before change.
type Subscriptions struct {
	Stored   natsstore.Subscriptions
	Counts   Counts
	CaughtUp func()
	Know     func(id string, sub *sluice.Subscription) // nil: deleted
	Forget   func(id string)                           // it was deleted
	Applied  *Applied
}

// Watch calls change for every subscription, and then for every change. change gets subscriptions
// of mode push only, nil for a deleted one of any mode, and an empty id once all stored ones were
// passed. If a change cannot be read, change gets the subscription as it was before, paused: the
// engine deletes the parked lanes of a deleted one.
func (s Subscriptions) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	pushed := map[string]*sluice.Subscription{} // which the engine keeps, too
	return s.Stored.Watch(ctx, changes[*sluice.Subscription]{
		set: func(e natsstore.Entry[*sluice.Subscription]) {
			s.Counts.Set(e.Value)
			s.Know(e.Key, e.Value)
			if e.Value.Mode == sluice.Push {
				pushed[e.Key] = e.Value
				change(e.Key, e.Value)
			}
			s.Applied.enter(e.Revision)
		},
		unreadable: func(key string) {
			if was := pushed[key]; was != nil && was.State == sluice.Active {
				paused := *was
				paused.State = sluice.Paused
				change(key, &paused)
			}
		},
		removed: func(key string, _ uint64) {
			delete(pushed, key)
			s.Counts.Remove(key)
			s.Know(key, nil)
			s.Forget(key)
			change(key, nil)
		},
		caughtUp: func() {
			s.CaughtUp()
			change("", nil)
		},
	}.handle)
}

// Replays passes replays to the delivery engine.
type Replays struct{ Stored deliverystore.Replays }

// Watch calls change for every replay, and then for every change.
func (r Replays) Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error {
	return r.Stored.Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		if e.Change != natsstore.CaughtUp {
			change(e.Value, e.Change == natsstore.Removed)
		}
	})
}

// Consumers creates and deletes the consumers of subscriptions.
type Consumers struct {
	Store  *deliverystore.Store
	Forget func(ctx context.Context, sub *sluice.Subscription) error // deletes its wake consumers
	Expire func(ctx context.Context, sub *sluice.Subscription) error // writes dead letters for its events that left the log
}

// Expect records that a subscription is about to be stored for the first time.
func (c Consumers) Expect(sub *sluice.Subscription) { c.Store.Expect(sub) }

// Ensure creates the subscription's consumers.
func (c Consumers) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return c.Store.EnsureConsumers(ctx, sub)
}

// Place returns the sequence of the first event that the subscription may not have settled. Events
// before it that left the log unsettled have dead letters first: after a start at the place they
// would not be looked for.
func (c Consumers) Place(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	if err := c.Expire(ctx, sub); err != nil {
		return 0, err
	}
	return c.Store.Place(ctx, sub)
}

// Remove deletes the subscription's consumers and lanes. It tries all three parts, and returns
// their errors.
func (c Consumers) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(c.Store.RemoveConsumers(ctx, sub), c.Store.ForgetLanes(ctx, sub.ID), c.Forget(ctx, sub))
}
