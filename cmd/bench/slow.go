package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// slowRow is the result of the healthy endpoint; durations are medians of the rounds, counts sums.
type slowRow struct {
	neighbour

	events, arrived           int
	p50, p99                  time.Duration
	besideEvents, besideTaken int // of the neighbour
	besideLeft                int // waiting or in flight
}

func (p slowPlan) measure(ctx context.Context, e env) ([]slowRow, error) {
	all := p.neighbours()
	rounds := make([][]slowRow, len(all))
	for round := range p.rounds {
		for i, n := range all {
			e.progress("slow neighbour, round %d of %d: %s\n", round+1, p.rounds, n.name)
			got, err := p.round(ctx, e, n)
			if err != nil {
				return nil, fmt.Errorf("slow neighbour, %s: %w", n.name, err)
			}
			rounds[i] = append(rounds[i], got)
		}
	}
	rows := make([]slowRow, len(all))
	for i, n := range all {
		r := slowRow{neighbour: n}
		for _, got := range rounds[i] {
			r.events, r.arrived = r.events+got.events, r.arrived+got.arrived
			r.besideEvents, r.besideTaken, r.besideLeft = r.besideEvents+got.besideEvents, r.besideTaken+got.besideTaken, r.besideLeft+got.besideLeft
		}
		r.p50 = medianOf(rounds[i], func(r slowRow) time.Duration { return r.p50 })
		r.p99 = medianOf(rounds[i], func(r slowRow) time.Duration { return r.p99 })
		rows[i] = r
	}
	return rows, nil
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

// load publishes to both endpoints, or to the first one only, and counts.
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

func (p slowPlan) print(w io.Writer, rows []slowRow) error {
	text := fmt.Sprintf("\nSlow neighbour: %d events/s to a healthy endpoint for %s, and as many to another one; policies are the defaults; medians of %d rounds\n\n",
		p.perSecond, p.lasts, p.rounds)
	var cells strings.Builder
	cells.WriteString("the healthy one\tevents\tarrived\tp50 ms\tp99 ms\tp50 ratio\tp99 ratio\tits neighbour's\tanswered\twait\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%s\t%d\t%d\t%.2f\t%.2f\t%s\t%s\t%d\t%d\t%d\t\n", r.name, r.events, r.arrived, ms(r.p50), ms(r.p99),
			ratio(r.p50, rows[0].p50), ratio(r.p99, rows[0].p99), r.besideEvents, r.besideTaken, r.besideLeft)
	}
	return write(w, text, cells.String())
}
