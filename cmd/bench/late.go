package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// latePlan is the row of lateness: deliveries, each on a path of its own, with a first attempt that
// fails, all at once.
type latePlan struct {
	events int
	again  time.Duration // after the first attempt
	window int
	rounds int
}

// lateRow is the delay of the second attempts after their due time; medians of the rounds, the
// maximum of all.
type lateRow struct {
	events, again int // second attempts, and requests beyond them; sums
	p50, p99, max time.Duration
}

func (p latePlan) table() table[lateRow] {
	const loop = "bare loop, a timer each"
	row := func(start func(context.Context, env, string) (*bed, error), rows ...head) subject[lateRow] {
		return subject[lateRow]{rows, func(ctx context.Context, e env) ([]lateRow, error) { return p.round(ctx, e, start) }}
	}
	return table[lateRow]{
		name: "late", title: "Lateness of retries", plot: "p99 ms", rounds: p.rounds,
		about: fmt.Sprintf("%s deliveries at once fail with a 503, and the second attempt of each is due in %s. The times are from then to that attempt.", number(float64(p.events)), p.again),
		columns: []column[lateRow]{
			counted("attempts", func(r lateRow) int { return r.events }),
			inMillis("p50", func(r lateRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r lateRow) time.Duration { return r.p99 }),
			inMillis("longest", func(r lateRow) time.Duration { return r.max }),
			counted("sent again", func(r lateRow) int { return r.again }),
		},
		subjects: []subject[lateRow]{
			row(p.startLoop, head{Name: loop}),
			row(p.startSluice, head{Name: "Sluice", Base: loop, Aim: "p99 100 ms"}, head{Name: "Sluice, by its attempt log", Base: loop}),
		},
	}
}

func (p latePlan) startLoop(ctx context.Context, e env, hook string) (*bed, error) {
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return nil, err
	}
	proc, err := loop{Data: dir, Sync: defaultSync, URL: hook, Window: p.window, Again: p.again}.launch(ctx)
	if err != nil {
		return nil, err
	}
	return attach(proc, nil)
}

func (p latePlan) startSluice(ctx context.Context, e env, hook string) (*bed, error) {
	b, err := e.makeBed(ctx)
	if err != nil {
		return nil, err
	}
	retries := policy{"window": p.window, "retry": sluice.Retry{
		Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(p.again)}, MaxAttempts: 10,
	}}
	if err := subscribe(ctx, b.api, consumerName, hook, retries); err != nil {
		return nil, cmp.Or(b.close(), err)
	}
	return b, nil
}

// round measures a system once: at the receiver and, if it has a log, from that. It returns one row
// for the loop, and two for Sluice.
func (p latePlan) round(ctx context.Context, e env, start func(context.Context, env, string) (*bed, error)) (rows []lateRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.again+limit, errLimit)
	defer cancel()
	const group = 1
	hook, err := station(ctx, func(_ mark, before int) (int, time.Duration) {
		if before == 0 {
			return http.StatusServiceUnavailable, 0
		}
		return http.StatusOK, 0
	})
	if err != nil {
		return nil, err
	}
	defer hook.close()
	b, err := start(ctx, e, hook.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := b.burst(ctx, flow{consumerName, "p", group, p.events}, p.events); err != nil {
		return nil, err
	}
	if err := hook.wait(ctx, group, p.events, p.again+patience); err != nil {
		return nil, err
	}
	rows = append(rows, lateOf(lateness(hook.of(group), p.again)))
	if b.api == nil {
		return rows, nil
	}
	if err := b.rests(ctx, consumerName); err != nil {
		return nil, err
	}
	log, err := b.attempts(ctx, consumerName)
	return append(rows, lateOf(latenessOf(log), 0)), err
}

func lateOf(late []time.Duration, again int) lateRow {
	return lateRow{
		events: len(late), again: again,
		p50: percentile(late, 50), p99: percentile(late, 99), max: percentile(late, 100),
	}
}

// lateness returns the delay of each event's second request after the first answer and the wait,
// and the number of further requests. An event without a second request has no delay. all is in
// order of arrival.
func lateness(all []arrival, again time.Duration) (late []time.Duration, beyond int) {
	due := map[int]time.Time{}
	for _, a := range all {
		switch at, ok := due[a.number]; {
		case !ok:
			due[a.number] = a.answered.Add(again)
		case at.IsZero():
			beyond++
		default:
			late = append(late, a.at.Sub(at))
			due[a.number] = time.Time{}
		}
	}
	return late, beyond
}

// latenessOf returns the delay of the attempts after the first behind their due times. It sorts
// log. The due time is that of the verdict before.
func latenessOf(log []sluice.Attempt) (late []time.Duration) {
	slices.SortStableFunc(log, func(a, b sluice.Attempt) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Number, b.Number))
	})
	var last sluice.Attempt
	for _, a := range log {
		if a.Seq == last.Seq {
			late = append(late, a.StartedAt.Sub(last.Verdict.Again))
		}
		last = a
	}
	return late
}
