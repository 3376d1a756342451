package delivery

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
)

// publishGauges publishes the state of the lane table. The search for the oldest event visits every
// lane, so it runs at most once in lookEvery.
func (r *runner) publishGauges() {
	const lookEvery = 250 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gauges = model.DeliveryGauges{
		Namespace: r.sub.Namespace, Subscription: r.sub.ID,
		InFlight: r.lanes.busy, Buffered: len(r.lanes.held), Parked: r.lanes.parked - r.lanes.quiet, HeldLanes: r.lanes.heldLanes, Breaker: r.breaker.state,
	}
	switch now := time.Now(); {
	case r.gauges.Buffered+r.gauges.Parked == 0:
		r.oldest, r.retries = time.Time{}, 0
	case r.oldest.IsZero() && r.gauges.Buffered > 0 || now.Sub(r.looked) > lookEvery:
		r.oldest, r.retries, r.looked = r.lanes.oldest(), r.lanes.retries(now.Add(time.Hour)), now
	}
	r.gauges.Due = r.retries
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

func (r *runner) read() model.DeliveryGauges {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.gauges
	if !r.oldest.IsZero() {
		g.Lag = time.Since(r.oldest)
	}
	return g
}

// recentSet remembers the last settled sequences, because a delivery whose acknowledgement is lost
// comes again.
type recentSet struct {
	size int
	ring []uint64
	next int
	set  map[uint64]struct{}
}

func (s *recentSet) add(seq uint64) {
	if s.set == nil {
		s.set = map[uint64]struct{}{}
	}
	if len(s.ring) < s.size {
		s.ring = append(s.ring, seq)
	} else {
		delete(s.set, s.ring[s.next])
		s.ring[s.next] = seq
		s.next = (s.next + 1) % s.size
	}
	s.set[seq] = struct{}{}
}

func (s *recentSet) has(seq uint64) bool {
	_, ok := s.set[seq]
	return ok
}
