package deliverystore

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// expectedFor is the time during which a new subscription may start at its expected position
// without reading the stored one. It limits how many expectations are kept, and nothing else: no
// other replica can have served the subscription, because this one must have held its lease since.
const expectedFor = 2 * time.Second

// expected contains the new subscriptions that the shared reader is to serve, by ID.
type expected struct {
	mu  sync.Mutex
	all map[string]expectation
}

// expectation is a subscription that is about to be stored for the first time.
type expectation struct {
	began time.Time
	at    time.Time
	begun bool                  // it was served since
	still func(key string) bool // whether this process has held a lease without a break since
}

// enter adds a subscription, and removes some that are too old.
func (e *expected) enter(sub *sluice.Subscription, now time.Time, still func(key string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string]expectation{}
	}
	e.all[sub.ID] = expectation{began: sub.Began(), at: now, still: still}
	for id, one := range e.all { // only some of them: the order of iteration is random, so each is removed before long
		if now.Sub(one.at) < expectedFor {
			break
		}
		delete(e.all, id)
	}
}

// has reports whether a subscription is expected.
func (e *expected) has(sub *sluice.Subscription) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.all[sub.ID]
	return ok && one.began.Equal(sub.Began())
}

// begin reports whether a subscription may start at its expected position. It returns true at most
// once.
func (e *expected) begin(sub *sluice.Subscription, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.all[sub.ID]
	if !ok || one.begun || !one.began.Equal(sub.Began()) || now.Sub(one.at) >= expectedFor || !one.still(model.LeaseKey(sub)) {
		return false
	}
	one.begun = true
	e.all[sub.ID] = one
	return true
}

// Expect records that a subscription is about to be stored for the first time. If the shared reader
// is to serve it, and it starts at a sequence, the reader starts there without reading the stored
// position, which saves a read. Expect stores nothing. The expectation holds for expectedFor, and
// only while this process keeps the lease of the subscription: it must hold it already.
func (s *Store) Expect(sub *sluice.Subscription) {
	if s.shared.Shares != nil && sub.From.Kind == sluice.StartSeq && s.shared.Shares(sub) {
		_, still := s.shared.Holding()
		s.expected.enter(sub, time.Now(), still)
	}
}

// New returns the initial position of a subscription that this process has just created, once, if it
// has held the lease of the subscription since; false for any other.
func (p Positions) New(sub *sluice.Subscription) (fanout.Stored, bool) {
	if !p.store.expected.begin(sub, time.Now()) {
		return fanout.Stored{}, false
	}
	return fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: floorsBefore(sub, sub.From.Seq)}}, true
}

// floorsBefore returns the floors of a subscription that starts at a sequence.
func floorsBefore(sub *sluice.Subscription, first uint64) []uint64 {
	return slices.Repeat([]uint64{max(first, 1) - 1}, len(streams.Names{}.PushConsumers(sub)))
}
