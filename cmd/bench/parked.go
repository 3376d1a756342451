package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// parkedPlan is the row of parked lanes: paths with a failing head and a retry in an hour, beside
// healthy paths of the same subscription. A round has four stages on one server, so that later ones
// have the state of the earlier ones.
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

// parkedRow is the result of the healthy paths in a stage.
type parkedRow struct {
	events, arrived int
	p50, p99        time.Duration
	reading
}

func (p parkedPlan) table() table[parkedRow] {
	names := p.stages()
	rows := []head{{Name: names[0]}}
	for _, name := range names[1:] {
		rows = append(rows, head{Name: name, Base: names[0]})
	}
	return table[parkedRow]{
		name: "parked", title: "Parked lanes", plot: "p99 ms", rounds: p.rounds,
		about: fmt.Sprintf("%s paths have a head that fails and is retried in an hour, beside %d events a second of healthy paths of the same subscription, %s a stage. "+
			"The times are those of the healthy paths, from publish to arrival.", number(float64(p.lanes)), p.perSecond, p.lasts),
		columns: []column[parkedRow]{
			counted("events", func(r parkedRow) int { return r.events }),
			counted("missing", func(r parkedRow) int { return r.events - r.arrived }),
			inMillis("p50", func(r parkedRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r parkedRow) time.Duration { return r.p99 }),
			counted("pending in JetStream, at most", func(r parkedRow) int { return r.pending }),
			counted("records of lanes", func(r parkedRow) int { return r.records }),
			inMiB("highest RSS", func(r parkedRow) int64 { return r.rss }),
		},
		subjects: []subject[parkedRow]{{rows, p.round}},
	}
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

// stage publishes events of the healthy paths and the stage's load. Missing arrivals are no error.
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
