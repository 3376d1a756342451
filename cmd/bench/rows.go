package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	results  string // directory for reports; "": they are only printed
	missing  bool   // leaves out rows that have a report there
	binary   string // of Sluice
	commit   string // of the binary
	dir      string // for data; its creator removes it
	progress func(format string, args ...any)
}

// plans is the extent of all kinds of measurements. Results with other plans may not be comparable
// with the stored ones (see merged).
type plans struct {
	speed    plan
	slow     slowPlan
	late     latePlan
	outage   outagePlan
	crash    crashPlan
	parked   parkedPlan
	many     manyPlan
	rest     restPlan
	fanout   fanoutPlan
	replicas replicasPlan
	vary     variantsPlan

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

// complete has the extent of the results in docs/performance.md.
func complete() plans {
	p := plans{
		speed: full(),
		slow:  slowPlan{perSecond: 100, paths: 500, lasts: 20 * time.Second, takes: 4 * time.Second, rounds: 3},
		late:  latePlan{events: 2000, again: 5 * time.Second, window: 64, rounds: 3},
		outage: outagePlan{
			perSecond: 200, paths: 500, limit: 500, before: 5 * time.Second, down: time.Minute, after: 10 * time.Second,
			steps: seconds(1, 2, 5, 10),
		},
		crash:  crashPlan{publishers: 32, paths: 500, window: 64, before: 3 * time.Second, after: 3 * time.Second, rounds: 3},
		parked: parkedPlan{lanes: 3000, perSecond: 100, paths: 500, lasts: 10 * time.Second, rounds: 3},
		many:   manyPlan{counts: []int{10, 1000, 10_000, 100_000}, events: 20_000, paced: 500, rests: 10 * time.Second},
		rest:   restPlan{events: 30_000, batch: 100, clients: 32, paths: 500, window: 64, rounds: 3},

		replicas: replicasPlan{manyPlan{counts: []int{10, 1000, 10_000}, events: 5000, paced: 300, rests: 10 * time.Second}, 4 * time.Minute},
		fanout:   fanoutPlan{subscriptions: 1000, flood: 20, paced: 10, window: 64, rounds: 3},
		vary:     variantsPlan{full(), []int{256, 4 << 10, 64 << 10}, []int{1, 100, 100_000}},

		streams: streamsPlan{
			appends: 1000, interval: 5 * time.Millisecond, flood: 20_000, clients: 32,
			wakes: 300, settles: 2 * time.Millisecond, crowd: 1000, readers: 200, paced: 100, rounds: 3,
		},
		feeds: feedsPlan{publishes: 250, interval: 20 * time.Millisecond, readers: 1000, fans: 200, flood: 5000, paced: 250, rounds: 2},
		idle:  idlePlan{readers: 1000, sent: 20, rests: 3 * time.Second},
		state: statePlan{paths: []int{1000, 10_000, 100_000}, events: 2, page: 1000},
	}
	p.vary.floods, p.vary.events, p.vary.paced, p.vary.rounds = 2, 4000, 300, 3
	return p
}

// quick takes one short round of everything. Its results say nothing about speed.
func quick() plans {
	p := complete()
	p.speed = smoke()
	p.slow.lasts, p.slow.rounds = 5*time.Second, 1
	p.late.rounds = 1
	p.outage.before, p.outage.down, p.outage.after = time.Second, 5*time.Second, 2*time.Second
	p.crash.before, p.crash.after, p.crash.rounds = time.Second, time.Second, 1
	p.parked.lasts, p.parked.rounds = 2*time.Second, 1
	p.fanout.subscriptions, p.fanout.flood, p.fanout.rounds = 200, 5, 1
	p.vary.plan, p.vary.many = smoke(), []int{1, 100, 1000}
	p.many.counts, p.many.events, p.many.paced, p.many.rests = []int{10, 200}, 1000, 50, time.Second
	p.replicas.counts, p.replicas.events, p.replicas.paced, p.replicas.rests = p.many.counts, p.many.events, p.many.paced, p.many.rests
	p.rest.events, p.rest.rounds = 1000, 1
	p.streams.appends, p.streams.flood, p.streams.wakes, p.streams.paced, p.streams.rounds = 200, 5000, 50, 30, 1
	p.feeds.publishes, p.feeds.readers, p.feeds.flood, p.feeds.paced, p.feeds.rounds = 50, 200, 1000, 50, 1
	p.idle.readers, p.state.paths = 200, []int{1000, 10_000}
	return p
}

// upTo leaves out rows with more subscriptions.
func (p *plans) upTo(subscriptions int) {
	tooMany := func(n int) bool { return n > subscriptions }
	p.many.counts = slices.DeleteFunc(p.many.counts, tooMany)
	p.replicas.counts = slices.DeleteFunc(p.replicas.counts, tooMany)
}

// kinds are the kinds of rows, in the order of measurement.
func (p plans) kinds() []kind {
	return []kind{
		{"speed", p.speed.tables},
		{"slow", only(p.slow.table)},
		{"late", only(p.late.table)},
		{"outage", only(p.outage.table)},
		{"crash", func(e env) []section { return []section{p.crash.table(e)} }},
		{"parked", only(p.parked.table)},
		{"subscriptions", only(p.many.table)},
		{"fanout", only(p.fanout.table)},
		{"bodies", p.vary.bodies},
		{"paths", p.vary.overPaths},
		{"schemes", p.vary.schemes},
		{"replicas", only(p.replicas.table)},
		{"rest", only(p.rest.table)},
		{"streams", only(p.streams.table)},
		{"feeds", func(env) []section { return []section{p.feeds.table(), p.idle.table(), p.state.table()} }},
	}
}

// kind is rows that are measured together.
type kind struct {
	name   string
	tables func(e env) []section
}

func only[R any](t func() table[R]) func(env) []section {
	return func(env) []section { return []section{t()} }
}

// names are the names of all kinds.
func (p plans) names() (names []string) {
	for _, k := range p.kinds() {
		names = append(names, k.name)
	}
	return names
}

// run measures the named kinds, separated by commas; all if there are none. It stops at the first
// error. The reports of the kinds before it are stored then.
func (p plans) run(ctx context.Context, e env, names string, w io.Writer) error {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		if !slices.Contains(p.names(), name) {
			return fmt.Errorf("no rows are called %q: use %s", name, strings.Join(p.names(), ", "))
		}
	}
	for _, k := range p.kinds() {
		_, err := os.Stat(filepath.Join(e.results, k.name+".json"))
		if len(wanted) > 0 && !slices.Contains(wanted, k.name) || e.missing && err == nil {
			continue
		}
		if err := k.run(ctx, e, w); err != nil {
			return err
		}
	}
	return nil
}

// run measures the kind's tables, prints them and stores the report. Nothing is stored unless all
// its tables were measured.
func (k kind) run(ctx context.Context, e env, w io.Writer) error {
	r := e.begin(k.name)
	for _, t := range k.tables(e) {
		got, err := t.run(ctx, e)
		if err != nil {
			return err
		}
		if err := got.print(w); err != nil {
			return err
		}
		r.Results = append(r.Results, got)
	}
	if e.results == "" {
		return nil
	}
	return r.save(e.results)
}
