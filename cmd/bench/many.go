package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
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
	unwanted  float64       // events a second that match none
	ack       time.Duration // p99 of a publish
	quit      time.Duration // until it has stopped
	ready     time.Duration // from the start
	quiet     time.Duration // from ready until it uses little processor
	quitBusy  time.Duration
	lost      int
}

func (p manyPlan) table() table[manyRow] {
	t := table[manyRow]{
		name: "subscriptions", title: "Many subscriptions", plot: perSecondColumn, rounds: 1,
		about: fmt.Sprintf("%d publishers send %s events that match one subscription each, and as many that match none. "+
			"%d more, one each 10 ms, give p50 and p99 from publish to arrival. "+
			"After %s at rest the server is stopped, started with its stored data until it is ready, observed until it uses little processor, and stopped amid events. "+
			"Missing are events that had not arrived %s after the last was published, and the time until it uses little is 20 s at most. "+
			"The baseline is the row with the fewest subscriptions.", manyMakers, number(float64(p.events)), p.paced, p.rests, patience),
		columns: []column[manyRow]{
			{figure{Name: "created/s"}, func(r manyRow) float64 { return r.created }},
			compared(perSecondColumn, func(r manyRow) float64 { return r.rate }),
			inMillis("CPU each", func(r manyRow) time.Duration { return r.cpu }),
			inMillis("publish p99", func(r manyRow) time.Duration { return r.ack }),
			inMillis("p50", func(r manyRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r manyRow) time.Duration { return r.p99 }),
			compared("unwanted events/s", func(r manyRow) float64 { return r.unwanted }),
			inMiB("RSS", func(r manyRow) int64 { return r.rss }),
			inMiB("peak RSS", func(r manyRow) int64 { return r.peak }),
			{figure{Name: "idle, % of a core"}, func(r manyRow) float64 { return 100 * r.idle }},
			inMillis("stop", func(r manyRow) time.Duration { return r.quit }),
			inMillis("start until ready", func(r manyRow) time.Duration { return r.ready }),
			inMillis("from then until quiet", func(r manyRow) time.Duration { return r.quiet }),
			inMillis("stop amid events", func(r manyRow) time.Duration { return r.quitBusy }),
			counted("missing", func(r manyRow) int { return r.lost }),
		},
	}
	for i, count := range p.counts {
		h := head{Name: number(float64(count)) + " subscriptions"}
		if i > 0 {
			h.Base = t.subjects[0].rows[0].Name
		}
		t.subjects = append(t.subjects, one(h, func(ctx context.Context, e env) (manyRow, error) { return p.round(ctx, e, count) }))
	}
	return t
}

const manyMakers = 16 // that make subscriptions, and that publish

func (p manyPlan) round(ctx context.Context, e env, count int) (row manyRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*limit+time.Duration(count)*5*time.Millisecond, errLimit)
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
	defer func() { err = errors.Join(err, b.close()) }()
	row.count = count
	if row.created, _, err = subscribeMany(ctx, b.api, hook.url, count, "/many/%d/**"); err != nil {
		return row, err
	}
	if err := p.load(ctx, b, hook, &row); err != nil {
		return row, err
	}
	if err := p.rest(ctx, b, &row); err != nil {
		return row, err
	}
	return row, p.restart(ctx, e, b, &row)
}

// subscribeMany makes so many subscriptions, each with a pattern and a URL that have its number for
// a %d, and returns how many it made a second. It goes on after a refusal, but stops after a
// hundred. The error joins all refusals.
func subscribeMany(ctx context.Context, api *client.Client, hook string, count int, pattern string) (rate float64, refused int, err error) {
	const many = 100
	began := time.Now()
	var failures atomic.Int64
	err = together(manyMakers, func(n int) error {
		var errs []error
		for i := n; i < count && failures.Load() < many; i += manyMakers {
			_, _, err := api.CreateSubscription(ctx, map[string]any{
				"id": fmt.Sprintf("s%d", i), "namespace": namespace, "mode": sluice.Push, "pattern": strings.Replace(pattern, "%d", strconv.Itoa(i), 1),
				"endpoint": map[string]any{"url": strings.Replace(hook, "%d", strconv.Itoa(i), 1)},
			})
			if err != nil {
				failures.Add(1)
				errs = append(errs, fmt.Errorf("subscribe: %w", err))
			}
		}
		return errors.Join(errs...)
	})
	refused = int(failures.Load())
	return float64(count-refused) / time.Since(began).Seconds(), refused, err
}

// restart stops the idle server, starts it with all that it stored, and stops it amid events. It
// closes b.
func (p manyPlan) restart(ctx context.Context, e env, b *bed, row *manyRow) error {
	began := time.Now()
	if err := b.close(); err != nil {
		return err
	}
	row.quit, began = time.Since(began), time.Now()
	again, err := e.makeIn(ctx, b.dir, defaultSync)
	if err != nil {
		return err
	}
	row.ready, began = time.Since(began), time.Now()
	again.settle(ctx)
	row.quiet = time.Since(began)
	err = again.flood(ctx, "/many/0/x", p.events/10)
	began = time.Now()
	err = errors.Join(err, again.close())
	row.quitBusy = time.Since(began)
	return err
}

// load measures the events.
func (p manyPlan) load(ctx context.Context, b *bed, hook *receiver, row *manyRow) error {
	phase := 0
	publish := func(n int, path func(i int) string) error {
		phase++
		return together(manyMakers, func(k int) error {
			for i := k; i < n; i += manyMakers {
				if _, err := b.js.Publish(ctx, streams.Names{}.Subject(namespace, sluice.Path(path(i))), body(phase, i, time.Now(), size)); err != nil {
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
	last := arrived(ctx, got)
	row.rate = float64(got.count.Load()) / last.Sub(got.begun).Seconds()
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
	var acks []time.Duration
	for i := range p.paced {
		sent := time.Now()
		if _, err := b.js.Publish(ctx, streams.Names{}.Subject(namespace, sluice.Path(one(i))), body(phase, i, sent, size)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		acks = append(acks, time.Since(sent))
		<-clock.C
	}
	arrived(ctx, got)
	row.lost += p.paced - int(got.count.Load())
	row.p50, row.p99, row.ack = got.percentile(50), got.percentile(99), percentile(acks, 99)
	return nil
}

// arrived waits for the arrival of all events, or for long enough. Missing events are no error. It
// returns the time of the last arrival, or else of the end of the wait.
func arrived(ctx context.Context, got *arrivals) time.Time {
	select {
	case <-got.all:
		return got.last
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return time.Now() // the last event may arrive now, and set got.last
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
