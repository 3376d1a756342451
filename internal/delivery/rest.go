package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// restEvery is the interval at which a runner checks whether it can rest. It rests if it has no
// work and nothing has come since the last check.
const restEvery = 100 * time.Millisecond

// errResting ends a runner that has no work. The next event wakes its subscription.
var errResting = errors.New("nothing to deliver")

// Resting is a source that a runner can close while no events come.
type Resting interface {
	// Clean reports whether the store has no records of earlier deliveries of the source's events:
	// no attempts, no parked lanes, no health.
	Clean() bool
	// Past returns the progress of the latest deliveries, by sequence. known is false if the runner
	// has to read it from the store.
	Past() (progress map[uint64]model.Progress, known bool)
	// Rest closes the source if no deliveries wait, and reports whether it did. Then the next event
	// wakes the subscription.
	Rest() bool
}

// Arrivals starts runners when there is something to deliver, so that an idle subscription needs
// none.
type Arrivals interface {
	// Join makes this process serve a subscription from the next Commit on, or enters its new
	// settings. Arrivals calls wake, from any goroutine, when the subscription needs a runner and
	// has none.
	Join(sub *sluice.Subscription, wake func()) Seat
	// Commit tells Arrivals that all subscriptions that this process owns have joined.
	Commit()
	// Run serves until ctx is done. All runners must have ended by then.
	Run(ctx context.Context)
}

// Seat is a subscription that has joined. Each of its methods ends that. They do nothing if the
// subscription has joined again.
type Seat interface {
	Leave()  // it is not served for now; Leave stores its position
	Drop()   // another process takes over its whole shard
	Forget() // it was cancelled or deleted; nothing is stored
}

// timers are the timers of a runner's loop.
type timers struct {
	beat  *time.Ticker // extend the acknowledgement timeouts; for a Resting source: check whether to rest
	looks *time.Ticker
	wake  *time.Timer // the next decision of the dispatcher
	armed bool        // wake is set
}

func (r *runner) timers() *timers {
	every := holdEvery
	if r.intake.rests != nil { // such a source has no acknowledgement timeouts
		every = restEvery
	}
	return &timers{beat: time.NewTicker(every), looks: time.NewTicker(r.lookout.every)}
}

func (t *timers) stop() {
	t.beat.Stop()
	t.looks.Stop()
	if t.wake != nil {
		t.wake.Stop()
	}
}

// set sets the time until the next decision.
func (t *timers) set(wait time.Duration) {
	if t.armed = true; t.wake == nil {
		t.wake = time.NewTimer(wait)
		return
	}
	t.wake.Reset(wait)
}

// due returns the channel of the next decision, nil if there is none.
func (t *timers) due() <-chan time.Time {
	if !t.armed {
		return nil
	}
	return t.wake.C
}

// idle reports whether the runner can end without losing state.
func (r *runner) idle(now time.Time) bool {
	return r.lanes.empty() && r.breaker.Closed() && !r.waitsUntil().After(now) && !r.askAt.After(now) && r.failing == breaker.Failing{} &&
		r.record.allWell() && r.evaluator.cheap() && r.full(now)
}

// full reports whether the rate's buckets are full, as after a long idle time.
func (d *dispatcher) full(now time.Time) bool {
	for _, limit := range d.limits {
		if limit.TokensAt(now) < float64(limit.Burst()) {
			return false
		}
	}
	return true
}

// seats are the subscriptions that joined.
type seats struct {
	mu  sync.Mutex
	all map[string]seat
}

type seat struct {
	Seat

	namespace string
}

func (s *seats) put(sub *sluice.Subscription, taken Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[sub.ID] = seat{taken, sub.Namespace}
}

// take removes a subscription and returns its seat, nil if it has none.
func (s *seats) take(id string) Seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.all[id].Seat
	delete(s.all, id)
	return taken
}

// idle returns the gauges of those without a runner.
func (s *seats) idle(serving map[string]*served) (all []model.DeliveryGauges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.all {
		if serving[id] == nil {
			all = append(all, model.DeliveryGauges{Namespace: one.namespace, Subscription: id, Breaker: sluice.BreakerClosed})
		}
	}
	return all
}
