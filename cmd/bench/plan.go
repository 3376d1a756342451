package main

import (
	"cmp"
	"context"
	"fmt"
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

// sample is the result of one round of one system.
type sample struct {
	rate      float64       // deliveries a second of a flood, from the first publish to the last arrival
	p50, p99  time.Duration // from publish to arrival, of the paced events
	cpu       time.Duration // of the system, per event of the floods, until all are acknowledged
	pacedCPU  time.Duration // the same of the paced events
	rss, peak int64         // bytes: at the end, and the maximum
	again     int           // requests beyond one for each event
}

// row is the medians of a system's rounds.
type row struct {
	name, sync string
	sample
}

// defaultSync is the default of nats.sync.
const defaultSync = "1s"

// measure runs both systems in turn, as often as the plan says.
func (p plan) measure(ctx context.Context, e env) ([]row, error) {
	var rows []row
	for _, half := range []struct {
		sync   string
		rounds int
	}{{defaultSync, p.rounds}, {"always", p.always}} {
		if half.rounds == 0 {
			continue
		}
		pair := []system{{"bare loop", half.sync, startLoop}, {"Sluice", half.sync, starter(e.binary)}}
		samples := make([][]sample, len(pair))
		for round := range half.rounds {
			for i, s := range pair {
				e.progress("round %d of %d: %s, sync %s\n", round+1, half.rounds, s.name, s.sync)
				got, err := p.round(ctx, s, fmt.Sprintf("%s/%s-%d-%d", e.dir, s.sync, round, i))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.name, err)
				}
				samples[i] = append(samples[i], got)
			}
		}
		for i, s := range pair {
			rows = append(rows, row{s.name, s.sync, medians(samples[i])})
		}
	}
	return rows, nil
}

// round measures a system once, from its start to its end.
func (p plan) round(ctx context.Context, s system, dir string) (got sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
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

func medians(all []sample) sample {
	return sample{
		rate:     medianOf(all, func(s sample) float64 { return s.rate }),
		p50:      medianOf(all, func(s sample) time.Duration { return s.p50 }),
		p99:      medianOf(all, func(s sample) time.Duration { return s.p99 }),
		cpu:      medianOf(all, func(s sample) time.Duration { return s.cpu }),
		pacedCPU: medianOf(all, func(s sample) time.Duration { return s.pacedCPU }),
		rss:      medianOf(all, func(s sample) int64 { return s.rss }),
		peak:     medianOf(all, func(s sample) int64 { return s.peak }),
		again:    medianOf(all, func(s sample) int { return s.again }),
	}
}

func medianOf[S any, T cmp.Ordered](all []S, of func(S) T) T {
	values := make([]T, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	return median(values)
}

// median sorts the values and returns the middle one; of an even number, the upper of both.
func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
