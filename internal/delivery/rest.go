package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// restEvery is how often a runner without work looks whether it can rest: it does when nothing came
// since the last time.
const restEvery = 100 * time.Millisecond

// errResting ends a runner that has no work: the next event wakes its subscription.
var errResting = errors.New("nothing to deliver")

// Resting is a source that can be left while nothing comes.
type Resting interface {
	// Clean reports whether nothing is stored about earlier deliveries of the events that come: no
	// attempts, no parked lanes, no health.
	Clean() bool
	// Past returns how far the latest deliveries came, by sequence, if that is known to be all that is
	// stored about them.
	Past() (progress map[uint64]model.Progress, known bool)
	// Rest closes the source if nothing waits, and reports whether it did: the subscription is woken
	// when the next event comes.
	Rest() bool
}

// Arrivals starts runners when there is something to deliver, so that an idle subscription costs none.
type Arrivals interface {
	// Join says that this process serves a subscription from the next Commit on, or that its settings
	// changed. wake is called, from any goroutine, when it needs a runner and has none.
	Join(sub *sluice.Subscription, wake func()) Seat
	// Commit says that all subscriptions that this process owns have joined.
	Commit()
	// Run serves until ctx is done; all runners have ended by then.
	Run(ctx context.Context)
}

// Seat is a subscription that has joined. Its methods end that; they do nothing if it has joined again.
type Seat interface {
	Leave()  // it is not served any more, for now: its position is stored
	Drop()   // another process gets it, with all others of its shard
	Forget() // it has ended: nothing is stored
}

// timers are the clocks of a runner that serves.
type timers struct {
	beat  *time.Ticker // deliveries are held on to, or of a source that can be left: it may rest
	looks *time.Ticker
	wake  *time.Timer // the next decision of the dispatcher
	armed bool        // there is one
}

func (r *runner) timers() *timers {
	every := holdEvery
	if r.rests != nil { // which hands nothing out twice
		every = restEvery
	}
	return &timers{beat: time.NewTicker(every), looks: time.NewTicker(r.lookEvery)}
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

// beat holds on to deliveries, or lets the runner end if it has no work, and reports whether it does.
func (r *runner) beat(now time.Time) (rests bool) {
	if r.rests != nil {
		return r.rest(now)
	}
	r.lanes.each(func(d *model.Delivery) { r.answer(d.Receipt.Hold()) })
	return false
}

// rest lets the runner end if it has no work, and reports whether it does.
func (r *runner) rest(now time.Time) bool {
	if r.active || !r.idle(now) {
		r.active = false
		return false
	}
	r.resting.Store(true) // first: the next event may come at once
	if r.rests.Rest() {
		return true
	}
	r.resting.Store(false)
	return false
}

// idle reports whether the runner could end without forgetting anything.
func (r *runner) idle(now time.Time) bool {
	return r.lanes.empty() && r.breaker.closed() && !r.waitsUntil().After(now) && !r.askAt.After(now) && r.failing == failing{} &&
		!r.storing && r.stored.Breaker == "" && r.stored.FailingSince.IsZero() && r.stored.HeldUntil.IsZero() && r.stored.Unopened == "" &&
		r.exhausted.Load() == 0 && r.full(now)
}

// full reports whether the subscription may send as much at once as after a long idle time.
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
