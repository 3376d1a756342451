package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// limit limits one system's round, so that a missing delivery ends the run.
const limit = 90 * time.Second

// plan is the extent of the measurement.
type plan struct {
	warmup     int           // events before the measurement
	floods     int           // of events
	events     int           // in a flood, at full publishing speed
	paced      int           // one each interval
	interval   time.Duration // between paced events
	paths      int
	publishers int // each with a connection of its own
	size       int // of an event's data, in bytes
	window     int // requests in flight at most
	rounds     int // of both systems, in turn, with the default sync
	always     int // the same with sync "always"
}

func full() plan {
	return plan{
		warmup: 500, floods: 4, events: 5000, paced: 1000, interval: 10 * time.Millisecond,
		paths: 500, publishers: 32, size: 260, window: 64, rounds: 3, always: 1,
	}
}

func smoke() plan {
	return plan{
		warmup: 50, floods: 1, events: 300, paced: 20, interval: 5 * time.Millisecond,
		paths: 50, publishers: 8, size: 260, window: 64, rounds: 1,
	}
}

// system is a measured system and its sync setting.
type system struct {
	name, sync string
	start      func(ctx context.Context, dir, sync, hook string, window int) (*process, error)
}

// sample is the result of one round of one system. The usage is that of the process alone.
type sample struct {
	rate      float64       // deliveries a second of a flood, from the first publish to the last arrival
	p50, p99  time.Duration // from publish to arrival, of the paced events
	cpu       time.Duration // of the system, per event of the floods, until all are acknowledged
	pacedCPU  time.Duration // the same of the paced events
	rss, peak int64         // bytes: at the end, and the maximum
	again     int           // requests beyond one for each event
}

// defaultSync is the default of nats.sync.
const defaultSync = "1s"

// variant is a load under which Sluice is measured beside the bare loop.
type variant struct {
	name, sync string
	plan       plan
}

// versus returns the rows of both systems under each load, in turn.
func versus(e env, all ...variant) (rows []subject[sample]) {
	for _, v := range all {
		loop := system{"bare loop" + v.name, v.sync, startLoop}
		rows = append(rows, v.plan.row(loop, ""), v.plan.row(system{"Sluice" + v.name, v.sync, starter(e.binary, nil)}, loop.name))
	}
	return rows
}

// row is the row of a system under this load.
func (p plan) row(s system, base string) subject[sample] {
	return one(head{Name: s.name, Base: base}, func(ctx context.Context, e env) (sample, error) { return p.round(ctx, e, s) })
}

// tables are those of the system's speed, with both settings of nats.sync.
func (p plan) tables(e env) []section {
	about := fmt.Sprintf("%d publishers, each waiting for its acknowledgement, send %s events, %d times, as fast as they can over %d paths, to one endpoint that takes %d at once. "+
		"Then one event every %s is published: p50 and p99 are its time from publish to arrival. "+
		"The bare loop consumes a durable consumer and POSTs, without signatures, order, retries or a log. ",
		p.publishers, number(float64(p.events)), p.floods, p.paths, p.window, p.interval)
	var all []section
	for _, half := range []struct {
		name, title, sync, about string
		rounds                   int
	}{
		{"speed", "Speed", defaultSync, "The disk is written every second (`nats.sync: 1s`).", p.rounds},
		{"speed-always", "Speed with every event synced", "always", "Every write is synced before it is acknowledged (`nats.sync: always`).", p.always},
	} {
		all = append(all, table[sample]{
			name: half.name, title: half.title, about: about + half.about, plot: perSecondColumn, columns: sampleColumns(),
			rounds: half.rounds, subjects: versus(e, variant{"", half.sync, p}),
		})
	}
	return all
}

const perSecondColumn = "deliveries/s"

func sampleColumns() []column[sample] {
	return []column[sample]{
		compared(perSecondColumn, func(s sample) float64 { return s.rate }),
		inMillis("p50", func(s sample) time.Duration { return s.p50 }),
		inMillis("p99", func(s sample) time.Duration { return s.p99 }),
		inMillis("CPU each", func(s sample) time.Duration { return s.cpu }),
		inMillis("paced CPU each", func(s sample) time.Duration { return s.pacedCPU }),
		inMiB("RSS", func(s sample) int64 { return s.rss }),
		inMiB("peak RSS", func(s sample) int64 { return s.peak }),
		counted("sent again", func(s sample) int { return s.again }),
	}
}

// round measures a system once, from its start to its end. The measurement takes at most limit.
// When round returns, the process has ended and all connections are closed. It returns an error of
// the end of the process only if there was none before.
func (p plan) round(ctx context.Context, e env, s system) (got sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return sample{}, err
	}
	hook, err := listen(ctx)
	if err != nil {
		return sample{}, err
	}
	defer hook.close()
	proc, err := s.start(ctx, dir, s.sync, hook.url, p.window)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = cmp.Or(err, proc.stop()) }()
	load, err := p.connect(ctx, proc.nats, hook)
	if err != nil {
		return sample{}, err
	}
	defer load.close()
	if got, err = p.sample(ctx, proc, load); err != nil {
		return sample{}, err
	}
	got.again = hook.again()
	return got, nil
}

// sample measures a running system: the warm-up, the floods, and then the paced events. The usage
// is read when all events of a part are acknowledged.
func (p plan) sample(ctx context.Context, proc *process, load *load) (sample, error) {
	if _, err := load.flood(ctx, p.warmup); err != nil {
		return sample{}, fmt.Errorf("warm-up: %w", err)
	}
	before := proc.usage()
	var rates []float64
	for range p.floods {
		fast, err := load.flood(ctx, p.events)
		if err != nil {
			return sample{}, fmt.Errorf("flood: %w", err)
		}
		rates = append(rates, fast.rate())
	}
	between := proc.usage()
	slow, err := load.pace(ctx, p.paced, p.interval)
	if err != nil {
		return sample{}, fmt.Errorf("paced: %w", err)
	}
	after := proc.usage()
	return sample{
		rate: median(rates), p50: slow.percentile(50), p99: slow.percentile(99),
		cpu:      (between.cpu - before.cpu) / time.Duration(p.floods*p.events),
		pacedCPU: (after.cpu - between.cpu) / time.Duration(p.paced),
		rss:      after.rss, peak: after.peak,
	}, nil
}

// median sorts the values and returns the middle one; of an even number, the mean of both. It needs
// at least one value.
func median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}
