package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// outagePlan is the row of an outage: events go on while the endpoint is down, and for a while
// before and after.
//
// The times of a row, with the events at one rate all the while:
//
//	before         began          ended          the last has arrived
//	├──────────────┼──────────────┼──────────────┼──
//	 r.before      peak, requests,  recovering,    end
//	               attempts         busiest, gone
//
// Floor is the time that the left events take at the subscription's rate, so gone is expected to be
// at least that.
type outagePlan struct {
	perSecond     int // events
	paths         int
	limit         int // the subscription's rate
	before, after time.Duration
	down          time.Duration
	steps         []sluice.Duration // of the retry timetable
}

// weather is the behaviour of the endpoint while it is down. Without an outage (fair), the endpoint
// is up all the time, and the same figures are taken.
type weather string

const (
	fair    weather = "no outage"
	refused weather = "connection refused"
	failing weather = "answers 503"
)

// outageRow is the result of one outage.
type outageRow struct {
	weather weather

	events, arrived, again, disordered int
	dead                               int

	requests, attempts int // during the outage: counted by the receiver, and by the attempt log
	failedPaths        int // with at least one failed head
	records            int // maximum
	pending            int // maximum
	busiest            int // maximum of requests in a second after the outage

	left         int           // events that had not arrived when the outage was over, and those of after
	gone, floor  time.Duration // from the end of the outage to the last arrival; at least, at the rate
	before, peak int64         // RSS
	recovering   int64         // maximum RSS after the outage
	end          int64         // RSS when all had arrived
}

func (p outagePlan) table() table[outageRow] {
	t := table[outageRow]{
		name: "outage", title: "An outage", rounds: 1,
		about: fmt.Sprintf("%d events a second over %d paths continue while the endpoint is down for %s, %s before and %s after. "+
			"The subscription's rate is %d a second, and retries come after %s.",
			p.perSecond, p.paths, p.down, p.before, p.after, p.limit, strings.ReplaceAll(strings.Trim(fmt.Sprint(p.steps), "[]"), " ", ", ")),
		columns: []column[outageRow]{
			counted("events", func(r outageRow) int { return r.events }),
			counted("missing", func(r outageRow) int { return r.events - r.arrived }),
			counted("sent again after a 200", func(r outageRow) int { return r.again }),
			counted("behind a later one of their path", func(r outageRow) int { return r.disordered }),
			counted("dead letters", func(r outageRow) int { return r.dead }),
			counted("attempts during the outage", func(r outageRow) int { return r.attempts }),
			counted("of which the receiver saw", func(r outageRow) int { return r.requests }),
			counted("paths that failed", func(r outageRow) int { return r.failedPaths }),
			counted("records of lanes, at most", func(r outageRow) int { return r.records }),
			counted("pending in JetStream, at most", func(r outageRow) int { return r.pending }),
			counted("requests in any second afterwards, at most", func(r outageRow) int { return r.busiest }),
			counted("events that were left to send", func(r outageRow) int { return r.left }),
			compared("the last arrived after, s", func(r outageRow) float64 { return r.gone.Seconds() }),
			compared("at the rate that takes, s", func(r outageRow) float64 { return r.floor.Seconds() }),
			inMiB("before: RSS", func(r outageRow) int64 { return r.before }),
			inMiB("during it, at most: RSS", func(r outageRow) int64 { return r.peak }),
			inMiB("afterwards, at most: RSS", func(r outageRow) int64 { return r.recovering }),
			inMiB("when all had arrived: RSS", func(r outageRow) int64 { return r.end }),
		},
	}
	for _, w := range []weather{fair, refused, failing} {
		t.subjects = append(t.subjects, one(head{Name: string(w)}, func(ctx context.Context, e env) (outageRow, error) { return p.round(ctx, e, w) }))
	}
	return t
}

// events is the number of published events.
func (p outagePlan) events() int {
	return int((p.before + p.down + p.after).Seconds() * float64(p.perSecond))
}

// drained is the time for the events at the subscription's rate.
func (p outagePlan) drained(events int) time.Duration {
	return time.Duration(events) * time.Second / time.Duration(p.limit)
}

func (p outagePlan) round(ctx context.Context, e env, w weather) (r outageRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.before+p.down+p.after+3*p.drained(p.events())+2*limit, errLimit)
	defer cancel()
	var down atomic.Bool
	hook, err := station(ctx, func(mark, int) (int, time.Duration) {
		if down.Load() {
			return http.StatusServiceUnavailable, 0
		}
		return http.StatusOK, 0
	})
	if err != nil {
		return r, err
	}
	defer func() { hook.close() }()
	b, err := e.makeBed(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := subscribe(ctx, b.api, consumerName, hook.url, policy{
		"rate":  sluice.Rate{PerSecond: float64(p.limit)},
		"retry": sluice.Retry{Preset: sluice.PresetCustom, Steps: p.steps, MaxAttempts: 100},
	}); err != nil {
		return r, err
	}
	return p.load(ctx, b, hook, &storm{w, &down})
}

// storm takes an endpoint down and up again. begin and end are called once each. The endpoint reads
// down.
type storm struct {
	weather weather
	down    *atomic.Bool
}

func (s *storm) begin(hook *witness) {
	s.down.Store(s.weather == failing)
	if s.weather == refused {
		hook.close()
	}
}

func (s *storm) end(ctx context.Context, hook *witness) error {
	s.down.Store(false)
	if s.weather != refused {
		return nil
	}
	return hook.open(ctx)
}

func (p outagePlan) load(ctx context.Context, b *bed, hook *witness, s *storm) (outageRow, error) {
	const group = 1
	r := outageRow{weather: s.weather, events: p.events()}
	published := make(chan error, 1)
	go func() { published <- b.pace(ctx, flow{consumerName, "p", group, p.paths}, r.events, p.perSecond) }()
	watch := b.watch(ctx, consumerName, b.records)
	began, ended, err := p.pass(ctx, hook, s, func(stage int) {
		switch most := watch.take(); stage {
		case 0:
			r.before = most.rss
		case 1:
			r.peak, r.records, r.pending = most.rss, most.records, most.pending
			r.left = r.events - hook.count(group)
		}
	})
	if err := cmp.Or(<-published, err); err != nil {
		return r, cmp.Or(err, watch.stop())
	}
	r.floor = p.drained(r.left)
	if err := hook.wait(ctx, group, r.events, 3*r.floor+patience); err != nil {
		return r, cmp.Or(err, watch.stop())
	}
	most := watch.take()
	r.recovering, r.records, r.pending = most.rss, max(r.records, most.records), max(r.pending, most.pending)
	r.end = b.proc.usage().rss
	if err := watch.stop(); err != nil {
		return r, err
	}
	p.count(&r, hook.of(group), began, ended)
	return r, p.read(ctx, b, &r, [2]time.Time{began, ended})
}

// pass takes the endpoint down and up again, calls at before each, and returns the times.
func (p outagePlan) pass(ctx context.Context, hook *witness, s *storm, at func(stage int)) (began, ended time.Time, err error) {
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(p.before)
	at(0)
	began = time.Now()
	s.begin(hook)
	wait(p.down)
	at(1)
	ended = time.Now()
	return began, ended, cmp.Or(context.Cause(ctx), s.end(ctx, hook))
}

// count enters the receiver's results.
func (p outagePlan) count(r *outageRow, all []arrival, began, ended time.Time) {
	first, again := deliveries(all)
	r.arrived, r.again, r.disordered = len(first), again, disorder(first, p.paths)
	r.busiest = busiest(all, ended)
	for _, a := range all {
		if a.at.After(began) && a.at.Before(ended) {
			r.requests++
		}
	}
	if len(first) > 0 {
		r.gone = first[len(first)-1].at.Sub(ended)
	}
}

// read enters the server's results. The attempt log must be complete, so it first waits until the
// subscription rests.
func (p outagePlan) read(ctx context.Context, b *bed, r *outageRow, outage [2]time.Time) error {
	if err := b.rests(ctx, consumerName); err != nil {
		return err
	}
	status, err := b.api.Status(ctx, consumerName)
	if err != nil {
		return err
	}
	r.dead = int(status.DeadLetters) //nolint:gosec // a few thousand
	log, err := b.attempts(ctx, consumerName)
	if err != nil {
		return err
	}
	paths := map[sluice.Path]bool{}
	for i := range log {
		a := &log[i]
		if a.StartedAt.After(outage[0]) && a.StartedAt.Before(outage[1]) {
			r.attempts++
		}
		if a.Outcome != sluice.Delivered {
			paths[a.Path] = true
		}
	}
	r.failedPaths = len(paths)
	return nil
}
