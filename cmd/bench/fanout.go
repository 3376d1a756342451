package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-io/sluice/streams"
)

// fanoutPlan is the rows of events that each match many subscriptions.
type fanoutPlan struct {
	subscriptions int
	flood         int // events, each after the acknowledgement of the one before
	paced         int // events, each after all deliveries of the one before
	window        int // of the bare loop: requests in flight at most
	rounds        int
}

func (p fanoutPlan) table() table[sample] {
	const loop = "bare loop"
	columns := append(sampleColumns()[:4], sampleColumns()[5:]...)
	start := func(by func(context.Context, env, string) (*bed, error)) func(context.Context, env) (sample, error) {
		return func(ctx context.Context, e env) (sample, error) { return p.round(ctx, e, by) }
	}
	return table[sample]{
		name: "fanout", title: "One event to many subscriptions", plot: perSecondColumn, columns: columns, rounds: p.rounds,
		about: fmt.Sprintf("One publisher sends %d events as fast as it can, each of which matches %s subscriptions. "+
			"%d more follow, each after all deliveries of the one before: p50 and p99 are from publish to arrival. "+
			"The bare loop makes as many POSTs of each event, %d at once.", p.flood, number(float64(p.subscriptions)), p.paced, p.window),
		subjects: []subject[sample]{one(head{Name: loop}, start(p.startLoop)), one(head{Name: "Sluice", Base: loop}, start(p.startSluice))},
	}
}

func (p fanoutPlan) startLoop(ctx context.Context, e env, hook string) (*bed, error) {
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return nil, err
	}
	proc, err := loop{Data: dir, Sync: defaultSync, URL: hook, Window: p.window, Fan: p.subscriptions}.launch(ctx)
	if err != nil {
		return nil, err
	}
	return attach(proc, nil)
}

func (p fanoutPlan) startSluice(ctx context.Context, e env, hook string) (*bed, error) {
	b, err := e.makeBed(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, err := subscribeMany(ctx, b.api, hook, p.subscriptions, "/fan/**"); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// round measures a system once.
func (p fanoutPlan) round(ctx context.Context, e env, start func(context.Context, env, string) (*bed, error)) (got sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	hook, err := listen(ctx)
	if err != nil {
		return got, err
	}
	defer hook.close()
	b, err := start(ctx, e, hook.url+"?%d")
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if _, err := p.send(ctx, b, hook, 1, 1); err != nil {
		return got, fmt.Errorf("warm-up: %w", err)
	}
	b.settle(ctx)
	before := b.proc.usage().cpu
	fast, err := p.send(ctx, b, hook, 2, p.flood)
	if err != nil {
		return got, err
	}
	b.settle(ctx)
	got.rate = fast.rate()
	got.cpu = (b.proc.usage().cpu - before) / time.Duration(p.flood*p.subscriptions)
	var all []time.Duration
	for i := range p.paced {
		slow, err := p.send(ctx, b, hook, 3+i, 1)
		if err != nil {
			return got, err
		}
		all = append(all, slow.times()...)
	}
	got.p50, got.p99 = percentile(all, 50), percentile(all, 99)
	now := b.proc.usage()
	got.rss, got.peak, got.again = now.rss, now.peak, hook.again()
	return got, nil
}

// send publishes n events and waits for all their deliveries. The number of a delivery is its event's,
// and the number in its URL.
func (p fanoutPlan) send(ctx context.Context, b *bed, hook *receiver, phase, n int) (*arrivals, error) {
	got := hook.expect(phase, n*p.subscriptions)
	for i := range n {
		if _, err := b.js.Publish(ctx, streams.Names{}.Subject(namespace, "/fan/x"), body(phase, i*p.subscriptions, time.Now(), size)); err != nil {
			return nil, err
		}
	}
	select {
	case <-got.all:
		return got, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d deliveries arrived: %w", got.count.Load(), len(got.took), context.Cause(ctx))
	}
}
