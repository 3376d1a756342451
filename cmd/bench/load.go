package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// load publishes to a system and waits for the arrivals at the receiver. It is not safe for
// concurrent use.
type load struct {
	plan

	hook     *receiver
	conns    []*nats.Conn
	js       []jetstream.JetStream // of each connection
	subjects []string
	phase    int
}

// connect returns a load with a connection for each publisher. Close it after use.
func (p plan) connect(ctx context.Context, url string, hook *receiver) (*load, error) {
	l := &load{plan: p, hook: hook}
	for i := range p.paths {
		l.subjects = append(l.subjects, streams.Names{}.Subject(namespace, sluice.Path(fmt.Sprintf("/bench/p%d", i))))
	}
	for range p.publishers {
		nc, err := nats.Connect(url)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, nc)
		js, err := jetstream.New(nc)
		if err != nil {
			l.close()
			return nil, err
		}
		l.js = append(l.js, js)
	}
	return l, context.Cause(ctx)
}

func (l *load) close() {
	for _, nc := range l.conns {
		nc.Close()
	}
}

// flood publishes n events at the full speed of all publishers, each one event after the other, and
// returns when all have arrived and are settled. Errors are returned once all publishers have
// ended.
func (l *load) flood(ctx context.Context, n int) (*arrivals, error) {
	got := l.begin(n)
	var next atomic.Int64
	var publishers sync.WaitGroup
	failed := make(chan error, len(l.js))
	for _, js := range l.js {
		publishers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := l.publish(ctx, js, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	publishers.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return got, l.settled(ctx, got)
}

// pace publishes n events, one each interval, and returns when all have arrived and are settled.
func (l *load) pace(ctx context.Context, n int, interval time.Duration) (*arrivals, error) {
	got := l.begin(n)
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for i := range n {
		if err := l.publish(ctx, l.js[i%len(l.js)], i); err != nil {
			return nil, err
		}
		select {
		case <-clock.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return got, l.settled(ctx, got)
}

// begin begins a phase of n events. Its number is new, so that late repetitions of events of
// earlier phases do not count as arrivals.
func (l *load) begin(n int) *arrivals {
	l.phase++
	return l.hook.expect(l.phase, n)
}

// publish publishes one event of the phase and returns when it is acknowledged.
func (l *load) publish(ctx context.Context, js jetstream.JetStream, number int) error {
	sent := time.Now()
	_, err := js.Publish(ctx, l.subjects[number%len(l.subjects)], body(l.phase, number, sent, l.size))
	return err
}

// body returns an event's data of the given size. A size that is too small for the mark is
// exceeded.
func body(phase, number int, sent time.Time, size int) []byte {
	head := fmt.Sprintf(`{"mark":"%d %d %d","pad":"`, phase, number, sent.UnixNano())
	return []byte(head + strings.Repeat("x", max(0, size-len(head)-2)) + `"}`)
}

// settled waits until all have arrived and the system has acknowledged them, its last step: its
// resource use by then is complete.
func (l *load) settled(ctx context.Context, got *arrivals) error {
	select {
	case <-got.all:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d events arrived: %w", got.count.Load(), len(got.took), context.Cause(ctx))
	}
	consumer, err := l.js[0].Consumer(ctx, streams.Names{}.EventsStream(namespace), consumerName)
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		info, err := consumer.Info(ctx)
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0, err
	})
}
