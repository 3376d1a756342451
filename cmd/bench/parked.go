package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// parkedPlan is the row of parked lanes: paths with a failing head and a retry in an hour, beside
// healthy paths of the same subscription.
type parkedPlan struct {
	lanes     int
	perSecond int // events of the healthy paths
	paths     int // healthy ones
	lasts     time.Duration
	rounds    int
}

// stages are the loads beside the healthy paths, one after the other on one server.
func (p parkedPlan) stages() []string {
	return []string{"no lane parked", "while they are parked", "all parked", "all parked, and as many events for them"}
}

// parkedRow is the result of the healthy paths in a stage; durations are medians of the rounds,
// counts are sums, and the rest is the maximum.
type parkedRow struct {
	name            string
	events, arrived int
	p50, p99        time.Duration
	reading
}

func (p parkedPlan) measure(ctx context.Context, e env) ([]parkedRow, error) {
	names := p.stages()
	all := make([][]parkedRow, len(names))
	for round := range p.rounds {
		e.progress("parked lanes, round %d of %d\n", round+1, p.rounds)
		got, err := p.round(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("parked lanes: %w", err)
		}
		for i, r := range got {
			all[i] = append(all[i], r)
		}
	}
	rows := make([]parkedRow, len(names))
	for i, name := range names {
		r := parkedRow{name: name}
		for _, got := range all[i] {
			r.events, r.arrived, r.reading = r.events+got.events, r.arrived+got.arrived, r.most(got.reading)
		}
		r.p50 = medianOf(all[i], func(r parkedRow) time.Duration { return r.p50 })
		r.p99 = medianOf(all[i], func(r parkedRow) time.Duration { return r.p99 })
		rows[i] = r
	}
	return rows, nil
}

const failingGroup = 99

func (p parkedPlan) round(ctx context.Context, e env) (rows []parkedRow, err error) {
	stages := len(p.stages())
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(stages)*p.lasts+2*limit, errLimit)
	defer cancel()
	hook, err := station(ctx, func(m mark, _ int) (int, time.Duration) {
		if m.group == failingGroup {
			return http.StatusServiceUnavailable, 0
		}
		return http.StatusOK, 0
	})
	if err != nil {
		return nil, err
	}
	defer hook.close()
	b, err := e.makeBed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := subscribe(ctx, b.api, consumerName, hook.url, policy{
		"retry": sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Hour)}},
	}); err != nil {
		return nil, err
	}
	const warm = 50
	if err := b.pace(ctx, flow{consumerName, "p", warm, p.paths}, p.perSecond, p.perSecond); err != nil {
		return nil, err
	}
	watch := b.watch(ctx, consumerName, nil)
	for stage := range stages {
		r, err := p.stage(ctx, b, stage, hook)
		if err != nil {
			return nil, cmp.Or(err, watch.stop())
		}
		r.reading = watch.take()
		if r.records, err = b.records(ctx, consumerName); err != nil {
			return nil, cmp.Or(err, watch.stop())
		}
		rows = append(rows, r)
	}
	return rows, watch.stop()
}

// stage publishes events of the healthy paths and the stage's load.
func (p parkedPlan) stage(ctx context.Context, b *bed, stage int, hook *witness) (parkedRow, error) {
	events := int(p.lasts.Seconds() * float64(p.perSecond))
	doomed := flow{consumerName, "doomed", failingGroup, p.lanes}
	beside := []func() error{
		func() error { return nil },
		func() error { return b.burst(ctx, doomed, p.lanes) },
		func() error { return nil },
		func() error { return b.pace(ctx, doomed, events, p.perSecond) },
	}
	err := together(2, func(i int) error {
		if i == 0 {
			return b.pace(ctx, flow{consumerName, "p", stage, p.paths}, events, p.perSecond)
		}
		return beside[stage]()
	})
	if err != nil {
		return parkedRow{}, err
	}
	if err := hook.wait(ctx, stage, events, patience); err != nil {
		return parkedRow{}, err
	}
	if stage == 1 {
		if err := p.allParked(ctx, b); err != nil {
			return parkedRow{}, err
		}
	}
	first, _ := deliveries(hook.of(stage))
	all := took(first)
	return parkedRow{events: events, arrived: len(first), p50: percentile(all, 50), p99: percentile(all, 99)}, nil
}

// allParked waits until every failed lane is parked, or for long enough: they are counted.
func (p parkedPlan) allParked(ctx context.Context, b *bed) error {
	until := time.Now().Add(patience)
	return poll(ctx, func() (bool, error) {
		n, err := b.records(ctx, consumerName)
		return n >= p.lanes || time.Now().After(until), err
	})
}

func (p parkedPlan) print(w io.Writer, rows []parkedRow) error {
	text := fmt.Sprintf("\nParked lanes: %d paths whose head fails and waits for an hour, beside %d events/s of healthy paths of the same subscription, "+
		"%s a stage; medians of %d rounds; the window is the default, 64\n\n", p.lanes, p.perSecond, p.lasts, p.rounds)
	var cells strings.Builder
	cells.WriteString("the healthy paths\tevents\tarrived\tp50 ms\tp99 ms\tp50 ratio\tp99 ratio\tpending in JetStream, at most\trecords of lanes\tRSS MiB, at most\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%s\t%d\t%d\t%.2f\t%.2f\t%s\t%s\t%d\t%d\t%.0f\t\n", r.name, r.events, r.arrived, ms(r.p50), ms(r.p99),
			ratio(r.p50, rows[0].p50), ratio(r.p99, rows[0].p99), r.pending, r.records, mib(r.rss))
	}
	return write(w, text, cells.String())
}
