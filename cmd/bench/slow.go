package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"
)

// slowPlan is the row of the slow neighbour: events for a healthy endpoint, alone and beside as
// many for another one. All policies are the defaults.
type slowPlan struct {
	perSecond int // events to each endpoint
	paths     int // of each
	lasts     time.Duration
	takes     time.Duration // response time of the slow endpoint
	rounds    int
}

// neighbours are the loads beside the healthy endpoint. The quick one separates the effect of
// slowness from that of twice the load.
func (p slowPlan) neighbours() []neighbour {
	return []neighbour{{name: "alone"}, {"beside a quick one", true, 0}, {fmt.Sprintf("beside one that takes %s", p.takes), true, p.takes}}
}

type neighbour struct {
	name   string
	exists bool
	takes  time.Duration
}

// slowRow is the result of the healthy endpoint.
type slowRow struct {
	neighbour

	events, arrived           int
	p50, p99                  time.Duration
	besideEvents, besideTaken int // of the neighbour
	besideLeft                int // waiting or in flight
}

func (p slowPlan) table() table[slowRow] {
	t := table[slowRow]{
		name: "slow", title: "A slow neighbour", plot: "p99 ms", rounds: p.rounds,
		about: fmt.Sprintf("%d events a second go to a healthy endpoint for %s, and as many to a neighbour. The times are the healthy one's, from publish to arrival.", p.perSecond, p.lasts),
		columns: []column[slowRow]{
			counted("events", func(r slowRow) int { return r.events }),
			counted("missing", func(r slowRow) int { return r.events - r.arrived }),
			inMillis("p50", func(r slowRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r slowRow) time.Duration { return r.p99 }),
			counted("events of the neighbour", func(r slowRow) int { return r.besideEvents }),
			counted("answered", func(r slowRow) int { return r.besideTaken }),
			counted("waiting", func(r slowRow) int { return r.besideLeft }),
		},
	}
	for i, n := range p.neighbours() {
		h := head{Name: n.name}
		if i > 0 {
			h.Base = t.subjects[0].rows[0].Name
		}
		t.subjects = append(t.subjects, one(h, func(ctx context.Context, e env) (slowRow, error) { return p.round(ctx, e, n) }))
	}
	return t
}

// round measures once, with a server of its own.
func (p slowPlan) round(ctx context.Context, e env, n neighbour) (r slowRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.lasts+limit, errLimit)
	defer cancel()
	healthy, err := station(ctx, func(mark, int) (int, time.Duration) { return http.StatusOK, 0 })
	if err != nil {
		return r, err
	}
	defer healthy.close()
	other, err := station(ctx, func(mark, int) (int, time.Duration) { return http.StatusOK, n.takes })
	if err != nil {
		return r, err
	}
	defer other.close()
	b, err := e.makeBed(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := subscribe(ctx, b.api, "healthy", healthy.url, nil); err != nil {
		return r, err
	}
	if err := subscribe(ctx, b.api, "other", other.url, nil); err != nil {
		return r, err
	}
	return p.load(ctx, b, n, [2]*witness{healthy, other})
}

// load publishes to both endpoints, or to the first one only, and counts. It does not wait for the
// neighbour's events.
func (p slowPlan) load(ctx context.Context, b *bed, n neighbour, hooks [2]*witness) (slowRow, error) {
	const warm, measured = 0, 1
	if err := b.pace(ctx, flow{"healthy", "p", warm, p.paths}, p.perSecond, p.perSecond); err != nil {
		return slowRow{}, err
	}
	flows, events := []flow{{"healthy", "p", measured, p.paths}}, int(p.lasts.Seconds()*float64(p.perSecond))
	r := slowRow{neighbour: n, events: events}
	if n.exists {
		flows, r.besideEvents = append(flows, flow{"other", "p", measured, p.paths}), events
	}
	if err := together(len(flows), func(i int) error { return b.pace(ctx, flows[i], events, p.perSecond) }); err != nil {
		return r, err
	}
	if err := hooks[0].wait(ctx, measured, events, patience); err != nil {
		return r, err
	}
	first, _ := deliveries(hooks[0].of(measured))
	all := took(first)
	r.arrived, r.p50, r.p99 = len(first), percentile(all, 50), percentile(all, 99)
	status, err := b.api.Status(ctx, "other")
	r.besideTaken, r.besideLeft = hooks[1].count(measured), int(status.Backlog) //nolint:gosec // a few thousand
	return r, err
}
