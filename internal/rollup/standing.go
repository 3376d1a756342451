package rollup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Standing is the current state of a subscription on the replica that serves it.
type Standing struct {
	Parked    int       // lanes
	Held      int       // held among them
	Due       int       // among them, those with another attempt within an hour
	Oldest    time.Time // when its oldest fetched or parked event was stored; zero if there is none
	Breaker   sluice.Breaker
	Replays   int                      // under way
	Consumers map[sluice.WakeState]int // of mode wake
}

// Replica is the report of a server about itself.
type Replica struct {
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
	Leases  int    `json:"leases,omitempty"`
	Feeds   int    `json:"feeds,omitempty"`
}

// Seen is such a report with its time.
type Seen struct {
	Replica

	At time.Time
}

// standingOf returns the standing of a subscription from its gauges.
func standingOf(g *model.DeliveryGauges, now time.Time) Standing {
	s := Standing{Parked: g.Parked, Held: g.HeldLanes, Due: g.Due, Breaker: g.Breaker}
	if g.Lag > 0 {
		s.Oldest = now.Add(-g.Lag).UTC()
	}
	return s
}

// noted reports whether a standing is worth storing for other replicas.
func (s *Standing) noted(now time.Time) bool {
	return s.Parked > 0 || !s.Oldest.IsZero() && now.Sub(s.Oldest) >= time.Second || s.Replays > 0 || len(s.Consumers) > 0 ||
		s.Breaker == sluice.BreakerOpen || s.Breaker == sluice.BreakerHalfOpen
}

// stand returns the standings of the subscriptions of this process.
func (b *Book) stand() map[string]Standing {
	now := b.deps.Now()
	gauges := b.deps.Gauges()
	all := make(map[string]Standing, len(gauges))
	for i := range gauges {
		all[gauges[i].Subscription] = standingOf(&gauges[i], now)
	}
	if b.deps.Replays != nil {
		for _, g := range b.deps.Replays() {
			s := all[g.Subscription]
			s.Replays = g.Running
			all[g.Subscription] = s
		}
	}
	if b.deps.Wakes != nil {
		for _, g := range b.deps.Wakes() {
			s := all[g.Subscription]
			s.Consumers = g.Consumers
			all[g.Subscription] = s
		}
	}
	return all
}

// saveStandings queues the standings worth noting of this process, and the report about itself, for
// the next Flush.
func (b *Book) saveStandings() {
	now := b.deps.Now()
	noted := b.stand()
	for id, s := range noted {
		if !s.noted(now) {
			delete(noted, id)
		}
	}
	for part, ids := range parts(noted) {
		block := Block{At: now.UTC(), Standings: make(map[string]StoredStanding, len(ids))}
		for _, id := range ids {
			block.Standings[id] = StoredStanding(noted[id])
		}
		b.unsaved[fmt.Sprintf("%s.standing.%d", b.deps.Process, part)] = block
	}
	if b.deps.Replica != nil {
		is := b.deps.Replica()
		b.unsaved[b.deps.Process+".replica"] = Block{At: now.UTC(), Replica: &is}
	}
}

// Replicas returns the servers that have reported recently, ordered by ID.
func (b *Book) Replicas() []Seen {
	var all []Seen
	if b.deps.Replica != nil {
		all = append(all, Seen{b.deps.Replica(), b.deps.Now().UTC()})
	}
	b.mu.Lock()
	b.expire(minuteOf(b.deps.Now()))
	for _, block := range b.standings {
		if r := block.Replica; r != nil {
			all = append(all, Seen{*r, block.At})
		}
	}
	b.mu.Unlock()
	// A restarted server may also have a block from before the restart.
	slices.SortFunc(all, func(x, y Seen) int { return cmp.Or(strings.Compare(x.ID, y.ID), y.At.Compare(x.At)) })
	return slices.CompactFunc(all, func(x, y Seen) bool { return x.ID == y.ID })
}
