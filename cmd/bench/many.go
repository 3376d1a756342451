package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// manyPlan is the rows of the number of subscriptions in a namespace: what they cost while nothing
// happens, and what each event costs that matches one of them, or none.
type manyPlan struct {
	counts []int // of subscriptions; the first is the base of the ratios
	events int   // of which each matches one, and as many that match none
	paced  int   // events one after the other, a hundred a second
	rests  time.Duration
}

// manyRow is the result with a number of subscriptions.
type manyRow struct {
	count     int
	created   float64 // a second
	rss, peak int64
	idle      float64 // share of a core
	rate      float64 // deliveries a second
	cpu       time.Duration
	p50, p99  time.Duration
	unwanted  float64 // events a second that match none
	quit      time.Duration
	lost      int
}

func (p manyPlan) measure(ctx context.Context, e env) (rows []manyRow, err error) {
	for _, count := range p.counts {
		e.progress("%d subscriptions\n", count)
		row, err := p.round(ctx, e, count)
		if err != nil {
			return nil, fmt.Errorf("%d subscriptions: %w", count, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

const manyMakers = 16 // that make subscriptions, and that publish

func (p manyPlan) round(ctx context.Context, e env, count int) (row manyRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*limit, errLimit)
	defer cancel()
	hook, err := listen(ctx)
	if err != nil {
		return row, err
	}
	defer hook.close()
	b, err := e.makeBed(ctx)
	if err != nil {
		return row, err
	}
	defer func() {
		began := time.Now()
		err = errors.Join(err, b.close())
		row.quit = time.Since(began)
	}()
	row = manyRow{count: count}
	began := time.Now()
	err = together(manyMakers, func(n int) error {
		for i := n; i < count; i += manyMakers {
			_, _, err := b.api.CreateSubscription(ctx, map[string]any{
				"id": fmt.Sprintf("s%d", i), "namespace": namespace, "mode": sluice.Push, "pattern": fmt.Sprintf("/many/%d/**", i),
				"endpoint": map[string]any{"url": hook.url},
			})
			if err != nil {
				return fmt.Errorf("subscribe: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	row.created = float64(count) / time.Since(began).Seconds()
	if err := p.load(ctx, b, hook, &row); err != nil {
		return row, err
	}
	return row, p.rest(ctx, b, &row)
}

// load measures the events.
func (p manyPlan) load(ctx context.Context, b *bed, hook *receiver, row *manyRow) error {
	phase := 0
	publish := func(n int, path func(i int) string) error {
		phase++
		return together(manyMakers, func(k int) error {
			for i := k; i < n; i += manyMakers {
				if _, err := b.js.Publish(ctx, streams.Subject(namespace, sluice.Path(path(i))), body(phase, i, time.Now(), size)); err != nil {
					return fmt.Errorf("publish: %w", err)
				}
			}
			return nil
		})
	}
	one := func(i int) string { return fmt.Sprintf("/many/%d/x", i*7919%row.count) }
	before, got := b.proc.usage().cpu, hook.expect(phase+1, p.events)
	if err := publish(p.events, one); err != nil {
		return err
	}
	arrived(ctx, got)
	row.rate = float64(got.count.Load()) / got.last.Sub(got.begun).Seconds()
	row.cpu = (b.proc.usage().cpu - before) / time.Duration(max(1, got.count.Load()))
	row.lost += p.events - int(got.count.Load())
	began := time.Now()
	if err := publish(p.events, func(i int) string { return fmt.Sprintf("/other/%d", i%100) }); err != nil {
		return err
	}
	row.unwanted = float64(p.events) / time.Since(began).Seconds()
	phase++
	got = hook.expect(phase, p.paced)
	clock := time.NewTicker(10 * time.Millisecond)
	defer clock.Stop()
	for i := range p.paced {
		if _, err := b.js.Publish(ctx, streams.Subject(namespace, sluice.Path(one(i))), body(phase, i, time.Now(), size)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		<-clock.C
	}
	arrived(ctx, got)
	row.lost += p.paced - int(got.count.Load())
	row.p50, row.p99 = got.percentile(50), got.percentile(99)
	return nil
}

// arrived waits for the arrival of all events, or for long enough.
func arrived(ctx context.Context, got *arrivals) {
	select {
	case <-got.all:
	case <-time.After(patience):
		got.last = time.Now()
	case <-ctx.Done():
		got.last = time.Now()
	}
}

// rest measures the idle server.
func (p manyPlan) rest(ctx context.Context, b *bed, row *manyRow) error {
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(p.rests)
	before, began := b.proc.usage(), time.Now()
	wait(p.rests)
	now := b.proc.usage()
	row.idle = (now.cpu - before.cpu).Seconds() / time.Since(began).Seconds()
	row.rss, row.peak = now.rss, now.peak
	return context.Cause(ctx)
}

func (p manyPlan) print(w io.Writer, rows []manyRow) error {
	text := fmt.Sprintf("\nMany subscriptions of one namespace: %d events that match one each, as many that match none, %d one each 10ms, by %d publishers; "+
		"then %s at rest\n\n", p.events, p.paced, manyMakers, p.rests)
	var cells strings.Builder
	cells.WriteString("subscriptions\tcreated/s\tdeliveries/s\tratio\tCPU ms each\tp50 ms\tp99 ms\tp99 ratio\tunwanted events/s\tRSS MiB\tpeak\tidle core\tstop\tmissing\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%d\t%.0f\t%.0f\t%s\t%.3f\t%.2f\t%.2f\t%s\t%.0f\t%.0f\t%.0f\t%.1f %%\t%.2fs\t%d\t\n", r.count, r.created, r.rate, ratio(r.rate, rows[0].rate),
			ms(r.cpu), ms(r.p50), ms(r.p99), ratio(r.p99, rows[0].p99), r.unwanted, mib(r.rss), mib(r.peak), 100*r.idle, r.quit.Seconds(), r.lost)
	}
	return write(w, text, cells.String())
}
