package delivery

import (
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
)

// gaugeBoard has the gauges of a runner for other goroutines.
type gaugeBoard struct {
	mu      sync.Mutex
	gauges  model.DeliveryGauges
	oldest  time.Time // oldest event that is held or parked; zero: none
	looked  time.Time // when oldest and retries were computed
	retries int       // parked lanes with another attempt within an hour
}

// publishGauges publishes the state of the lane table.
func (r *runner) publishGauges() {
	r.board.publish(&model.DeliveryGauges{
		Namespace: r.sub.Namespace, Subscription: r.sub.ID,
		InFlight: r.lanes.busy, Buffered: len(r.lanes.held), Parked: r.lanes.parked - r.lanes.quiet, HeldLanes: r.lanes.heldLanes, Breaker: r.breaker.State(),
		Failing: r.failing != breaker.Failing{},
	}, r.lanes, time.Now())
}

// publish replaces the gauges. The search for the oldest event visits every lane, so it runs at most
// once in lookEvery.
func (b *gaugeBoard) publish(g *model.DeliveryGauges, lanes *laneTable, now time.Time) {
	const lookEvery = 250 * time.Millisecond
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gauges = *g
	switch {
	case g.Buffered+g.Parked == 0:
		b.oldest, b.retries = time.Time{}, 0
	case b.oldest.IsZero() && g.Buffered > 0 || now.Sub(b.looked) > lookEvery:
		b.oldest, b.retries, b.looked = lanes.oldest(), lanes.retries(now.Add(time.Hour)), now
	}
	b.gauges.Due = b.retries
}

// unopened shows that the runner could not open its subscription.
func (b *gaugeBoard) unopened() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gauges.Unopened = true
}

// read returns the last published gauges.
func (b *gaugeBoard) read() model.DeliveryGauges {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gauges
	if !b.oldest.IsZero() {
		g.Lag = time.Since(b.oldest)
	}
	return g
}

// retries returns how many parked lanes whose head has failed have their next attempt until a time.
func (b *laneTable) retries(until time.Time) (n int) {
	for _, l := range b.due {
		if l.park.Attempts > 0 && !l.park.NextAt.After(until) {
			n++
		}
	}
	return n
}
