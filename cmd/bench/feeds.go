package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// feedsPlan is the rows of feeds: the cost of readers for publishers, and the delay of frames.
type feedsPlan struct {
	publishes int           // one after another, without readers and with many of each kind
	interval  time.Duration // between them
	readers   int           // of each kind
	fans      int           // readers of the rows of speed
	flood     int           // events that are published at full speed, each to all of these
	paced     int           // events that are published one each interval, each to all of these
	rounds    int
}

// feedRow is the result of one probe.
type feedRow struct {
	count    int
	lagged   int
	rate     float64       // frames a second; 0 if it is not the subject
	p50, p99 time.Duration // of a publish, or from publish to frame
	last     time.Duration
	cpu      time.Duration // of the server, for each frame
}

// feedProbe measures one row.
type feedProbe struct {
	head

	run func(ctx context.Context, b *bed) (feedRow, error)
}

func (p feedsPlan) probes() []feedProbe {
	many := fmt.Sprintf("%d readers", p.readers)
	const base = "publish without readers"
	return []feedProbe{
		{head{Name: base}, p.publishBeside(audience{})},
		{head{"publish, " + many + " of it", base, ""}, p.publishBeside(audience{Readers: p.readers, Query: "pattern=/feeds/*"})},
		{head{"publish, " + many + " that take nothing", base, "1.00"}, p.publishBeside(audience{Readers: p.readers, Query: "pattern=/feeds/*&buffer=16", Stares: true})},
		{head{"publish, " + many + " of something else", base, ""}, p.publishBeside(audience{Readers: p.readers, Query: "pattern=/other/*"})},
		{head{Name: "a frame, 1 reader"}, p.late(audience{Readers: 1})},
		{head{Name: fmt.Sprintf("a frame, %d readers", p.fans)}, p.late(audience{Readers: p.fans})},
		{head{Name: fmt.Sprintf("to %d, server-sent events", p.fans), Aim: "100000/s"}, p.fan(audience{Readers: p.fans})},
		{head{Name: fmt.Sprintf("to %d, WebSocket", p.fans), Aim: "100000/s"}, p.fan(audience{Readers: p.fans, Socket: true})},
		{head{Name: "what was before, to 1"}, p.replay(audience{Readers: 1})},
		{head{Name: fmt.Sprintf("what was before, to %d at once", p.fans)}, p.replay(audience{Readers: p.fans})},
	}
}

func (p feedsPlan) table() table[feedRow] {
	t := table[feedRow]{
		name: "feeds", title: "Feeds", plot: "frames/s", rounds: p.rounds,
		about: fmt.Sprintf("%d publishes, one each %s, are timed alone and beside readers. Frames are timed from the beginning of their publish. "+
			"%s events as fast as can be go to each of %d readers, which are a process of their own on the same cores.", p.publishes, p.interval, number(float64(p.flood)), p.fans),
		columns: []column[feedRow]{
			counted("publishes or frames", func(r feedRow) int { return r.count }),
			inMillis("p50", func(r feedRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r feedRow) time.Duration { return r.p99 }),
			inMillis("last", func(r feedRow) time.Duration { return r.last }),
			compared("frames/s", func(r feedRow) float64 { return r.rate }),
			compared("server CPU each µs", func(r feedRow) float64 { return micros(r.cpu) }),
			counted("lagged", func(r feedRow) int { return r.lagged }),
		},
	}
	for _, probe := range p.probes() {
		t.subjects = append(t.subjects, one(probe.head, func(ctx context.Context, e env) (feedRow, error) { return p.probe(ctx, e, probe) }))
	}
	return t
}

// probe measures a row once, on a server of its own.
func (p feedsPlan) probe(ctx context.Context, e env, probe feedProbe) (row feedRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	b, err := e.makeBed(ctx)
	if err != nil {
		return row, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := b.flood(ctx, "/warm/up", 500); err != nil {
		return row, err
	}
	return probe.run(ctx, b)
}

// flood publishes events at the full speed of one publisher.
func (b *bed) flood(ctx context.Context, path sluice.Path, n int) error {
	var last jetstream.PubAckFuture
	for number := range n {
		var err error
		if last, err = b.js.PublishAsync(streams.Names{}.Subject(namespace, path), body(0, number, time.Now(), size)); err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-last.Err():
		return err
	case <-last.Ok():
		return nil
	}
}

// audience returns an audience of this server.
func (b *bed) audience(ctx context.Context, a audience) (*gathered, error) {
	a.Address, a.Token = b.http, b.token
	return a.gather(ctx)
}

// publishBeside measures sequential publishes beside readers.
func (p feedsPlan) publishBeside(a audience) func(ctx context.Context, b *bed) (feedRow, error) {
	return func(ctx context.Context, b *bed) (row feedRow, err error) {
		if a.Readers > 0 {
			g, err := b.audience(ctx, a)
			if err != nil {
				return row, err
			}
			defer func() { err = errors.Join(err, g.leave()) }()
		}
		if a.Stares {
			if err := b.flood(ctx, "/feeds/before", 2000); err != nil { // until no connection accepts more
				return row, err
			}
			b.settle(ctx)
		}
		var all []time.Duration
		tick := time.NewTicker(p.interval)
		defer tick.Stop()
		for number := range p.publishes {
			<-tick.C
			begun := time.Now()
			if _, err := b.api.Publish(ctx, namespace, sluice.Event{Path: "/feeds/a", Type: "t", Data: body(0, number, begun, size)}); err != nil {
				return row, err
			}
			all = append(all, time.Since(begun))
		}
		return feedRow{count: len(all), p50: percentile(all, 50), p99: percentile(all, 99), last: percentile(all, 100)}, nil
	}
}

// settle waits until the server has little to do, for a while at most.
func (b *bed) settle(ctx context.Context) {
	const look, little = 250 * time.Millisecond, 12 * time.Millisecond
	for range 80 {
		before := b.proc.usage().cpu
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
		if b.proc.usage().cpu-before < little {
			return
		}
	}
}

// late measures the time from the start of a publish to its frame.
func (p feedsPlan) late(a audience) func(ctx context.Context, b *bed) (feedRow, error) {
	return func(ctx context.Context, b *bed) (feedRow, error) {
		a.Query, a.Expect = "pattern=/feeds/*", p.paced
		return p.told(ctx, b, a, func() error { return b.pace(ctx, flow{"feeds", "p", 0, 10}, p.paced, int(time.Second/p.interval)) })
	}
}

// fan measures the frames per second to many readers.
func (p feedsPlan) fan(a audience) func(ctx context.Context, b *bed) (feedRow, error) {
	return func(ctx context.Context, b *bed) (feedRow, error) {
		a.Query, a.Expect = "pattern=/feeds/*&buffer=16384", p.flood
		row, err := p.told(ctx, b, a, func() error { return b.flood(ctx, "/feeds/a", p.flood) })
		row.p50, row.p99, row.last = 0, 0, 0 // they are the length of the flood
		return row, err
	}
}

// replay measures the frames per second of older events.
func (p feedsPlan) replay(a audience) func(ctx context.Context, b *bed) (feedRow, error) {
	return func(ctx context.Context, b *bed) (feedRow, error) {
		a.Query, a.Expect = "pattern=/feeds/*&since=-1", p.flood
		if err := b.flood(ctx, "/feeds/a", p.flood); err != nil {
			return feedRow{}, err
		}
		if err := b.flood(ctx, "/other/a", 2000); err != nil { // so that the ring has none of them
			return feedRow{}, err
		}
		row, err := p.told(ctx, b, a, func() error { return nil })
		row.p50, row.p99, row.last = 0, 0, 0
		return row, err
	}
}

// told measures an audience during publishing.
func (p feedsPlan) told(ctx context.Context, b *bed, a audience, publish func() error) (row feedRow, err error) {
	begun, before := time.Now(), b.proc.usage().cpu
	g, err := b.audience(ctx, a)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, g.leave()) }()
	if !strings.Contains(a.Query, "since=") {
		begun, before = time.Now(), b.proc.usage().cpu
	}
	if err := publish(); err != nil {
		return row, err
	}
	h, err := g.heard()
	if err != nil {
		return row, err
	}
	return feedRow{
		count: h.Events, lagged: h.Lagged, rate: float64(h.Events) / h.Last.Sub(begun).Seconds(), p50: h.P50, p99: h.P99, last: h.Longest,
		cpu: (b.proc.usage().cpu - before) / time.Duration(max(1, h.Events)),
	}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
