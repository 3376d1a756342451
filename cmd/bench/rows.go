package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// patience is how long the bench waits for missing arrivals.
const patience = 30 * time.Second

var errLimit = errors.New("not done in time")

// env is the environment of a measurement.
type env struct {
	binary   string // of Sluice
	dir      string // for data; its creator removes it
	progress func(format string, args ...any)
}

// plans is the extent of all kinds of measurements.
type plans struct {
	speed  plan
	slow   slowPlan
	late   latePlan
	outage outagePlan
	parked parkedPlan
	many   manyPlan
	rest   restPlan

	streams streamsPlan
	feeds   feedsPlan
	idle    idlePlan
	state   statePlan
}

func seconds(all ...float64) (steps []sluice.Duration) {
	for _, s := range all {
		steps = append(steps, sluice.Duration(s*float64(time.Second)))
	}
	return steps
}

// complete has the extent of the documented results: see the table in docs/operations.md.
func complete() plans {
	return plans{
		speed: full(),
		slow:  slowPlan{perSecond: 100, paths: 500, lasts: 20 * time.Second, takes: 4 * time.Second, rounds: 3},
		late:  latePlan{events: 2000, again: 5 * time.Second, window: 64, rounds: 3},
		outage: outagePlan{
			perSecond: 200, paths: 500, limit: 500, before: 5 * time.Second, down: time.Minute, after: 10 * time.Second,
			steps: seconds(1, 2, 5, 10),
		},
		parked: parkedPlan{lanes: 3000, perSecond: 100, paths: 500, lasts: 10 * time.Second, rounds: 3},
		many:   manyPlan{counts: []int{10, 1000, 10_000}, events: 20_000, paced: 500, rests: 10 * time.Second},
		rest:   restPlan{events: 30_000, batch: 100, clients: 32, paths: 500, window: 64, rounds: 3},

		streams: streamsPlan{
			appends: 1000, interval: 5 * time.Millisecond, flood: 20_000, clients: 32,
			wakes: 300, settles: 2 * time.Millisecond, crowd: 1000, readers: 200, paced: 100, rounds: 3,
		},
		feeds: feedsPlan{publishes: 250, interval: 20 * time.Millisecond, readers: 1000, fans: 200, flood: 5000, paced: 250, rounds: 2},
		idle:  idlePlan{readers: 1000, sent: 20, rests: 3 * time.Second},
		state: statePlan{paths: []int{1000, 10_000, 100_000}, events: 2, page: 1000},
	}
}

// quick takes one short round of everything.
func quick() plans {
	p := complete()
	p.speed = smoke()
	p.slow.lasts, p.slow.rounds = 5*time.Second, 1
	p.late.rounds = 1
	p.outage.before, p.outage.down, p.outage.after = time.Second, 5*time.Second, 2*time.Second
	p.parked.lasts, p.parked.rounds = 2*time.Second, 1
	p.many.counts, p.many.events, p.many.paced, p.many.rests = []int{10, 200}, 1000, 50, time.Second
	p.rest.events, p.rest.rounds = 1000, 1
	p.streams.appends, p.streams.flood, p.streams.wakes, p.streams.paced, p.streams.rounds = 200, 5000, 50, 30, 1
	p.feeds.publishes, p.feeds.readers, p.feeds.flood, p.feeds.paced, p.feeds.rounds = 50, 200, 1000, 50, 1
	p.idle.readers, p.state.paths = 200, []int{1000, 10_000}
	return p
}

// kinds are the kinds of rows, in the order of measurement.
func (p plans) kinds() []kind {
	return []kind{
		{"speed", runner(p.speed)},
		{"slow", runner(p.slow)},
		{"late", runner(p.late)},
		{"outage", runner(p.outage)},
		{"parked", runner(p.parked)},
		{"subscriptions", runner(p.many)},
		{"rest", runner(p.rest)},
		{"streams", runner(p.streams)},
		{"feeds", all(runner(p.feeds), runner(p.idle), runner(p.state))},
	}
}

type kind struct {
	name string
	run  func(ctx context.Context, e env, w io.Writer) error
}

// table measures and prints one kind of rows.
type table[R any] interface {
	measure(ctx context.Context, e env) ([]R, error)
	print(w io.Writer, rows []R) error
}

// all runs several, one after another.
func all(runs ...func(ctx context.Context, e env, w io.Writer) error) func(ctx context.Context, e env, w io.Writer) error {
	return func(ctx context.Context, e env, w io.Writer) error {
		for _, run := range runs {
			if err := run(ctx, e, w); err != nil {
				return err
			}
		}
		return nil
	}
}

func runner[R any](t table[R]) func(ctx context.Context, e env, w io.Writer) error {
	return func(ctx context.Context, e env, w io.Writer) error {
		rows, err := t.measure(ctx, e)
		if err != nil {
			return err
		}
		return t.print(w, rows)
	}
}

// run measures the named kinds, separated by commas; all if there are none.
func (p plans) run(ctx context.Context, e env, names string, w io.Writer) error {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	kinds := p.kinds()
	for _, name := range wanted {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("no rows are called %q: use speed, slow, late, outage, parked, subscriptions, rest, streams, feeds", name)
		}
	}
	if _, err := io.WriteString(w, machine()); err != nil {
		return err
	}
	for _, k := range kinds {
		if len(wanted) > 0 && !slices.Contains(wanted, k.name) {
			continue
		}
		if err := k.run(ctx, e, w); err != nil {
			return err
		}
	}
	return nil
}
