package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// size is that of an event's data, in bytes, in all rows but speed, which has its own.
const size = 260

// bed is a running system, with its load and its monitoring. Close it after use; that also ends the
// process. It is safe for concurrent use.
type bed struct {
	proc  *process
	api   *client.Client // nil: of the bare loop
	dir   string         // its data
	http  string         // the address of its API
	token string
	nc    *nats.Conn
	js    jetstream.JetStream
}

const tokenFile = "root.token"

// makeBed starts Sluice in a directory of its own.
func (e env) makeBed(ctx context.Context) (*bed, error) { return e.makeSyncing(ctx, defaultSync) }

// makeSyncing is makeBed with a setting of nats.sync.
func (e env) makeSyncing(ctx context.Context, syncing string) (*bed, error) {
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return nil, err
	}
	return e.makeIn(ctx, dir, syncing)
}

// makeIn is makeSyncing in this directory, with the data that is there. Nothing is left running
// after an error.
func (e env) makeIn(ctx context.Context, dir, syncing string) (*bed, error) {
	proc, api, err := serve(ctx, e.binary, dir, settings, "--sync", syncing)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(dir, tokenFile)) //nolint:gosec // of the server that was started
	if err != nil {
		return nil, errors.Join(err, proc.stop())
	}
	b, err := attach(proc, api)
	if err == nil {
		b.dir, b.http, b.token = dir, proc.http, strings.TrimSpace(string(token))
	}
	return b, err
}

// attach connects to a system.
func attach(proc *process, api *client.Client) (*bed, error) {
	b := &bed{proc: proc, api: api}
	var err error
	if b.nc, err = nats.Connect(proc.nats); err == nil {
		b.js, err = jetstream.New(b.nc)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) close() error {
	if b.nc != nil {
		b.nc.Close()
	}
	if b.api != nil {
		b.api.HTTP.CloseIdleConnections()
	}
	return b.proc.stop()
}

// settings give the bench access to the log of attempts, a login for publishing like a producer's, and more subscriptions than by
// default.
const settings = "nats: {listen: '127.0.0.1:0', users: [{name: bench, password: bench, admin: true}]}\n" + limits

const limits = "limits: {subscriptions_per_namespace: 1000000}\n"

// serve starts Sluice with these settings, for development, which lets it send to loopback. It
// returns when the server is ready. The data directory has its settings, in bench.yaml.
func serve(ctx context.Context, binary, dir, settings string, args ...string) (*process, *client.Client, error) {
	file := filepath.Join(dir, "bench.yaml")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(settings), 0o600)); err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	cmd := command(ctx, binary, append([]string{"serve", "--dev", "--config", file, "--data", dir, "--http", "127.0.0.1:0", "--log-level", "warn"}, args...)...)
	p, at, err := launch(ctx, cmd, dir)
	if err != nil {
		return nil, nil, err
	}
	p.nats = strings.Replace(p.nats, "://", "://bench:bench@", 1)
	token, err := os.ReadFile(filepath.Join(dir, tokenFile)) //nolint:gosec // of the server that was started
	if err != nil {
		return nil, nil, errors.Join(err, p.stop())
	}
	return p, client.New(at.HTTP, strings.TrimSpace(string(token))), nil
}

// policy is the settings of a subscription that differ from the defaults.
type policy map[string]any

// subscribe makes a subscription to the paths /<id>/*.
func subscribe(ctx context.Context, api *client.Client, id, hook string, p policy) error {
	_, _, err := api.CreateSubscription(ctx, map[string]any{
		"id": id, "namespace": namespace, "mode": sluice.Push, "pattern": "/" + id + "/*",
		"endpoint": map[string]any{"url": hook}, "policy": p,
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// flow is events that are published to the paths of a subscription in turn.
type flow struct {
	id    string // of the subscription
	kind  string // of the paths: /<id>/<kind><number>
	group int    // in the events' marks
	paths int
}

// publish publishes one event and returns when it is acknowledged. Its path depends on its number
// only.
func (b *bed) publish(ctx context.Context, f flow, number int) error {
	path := sluice.Path(fmt.Sprintf("/%s/%s%d", f.id, f.kind, number%f.paths))
	_, err := b.js.Publish(ctx, streams.Names{}.Subject(namespace, path), body(f.group, number, time.Now(), size))
	return err
}

// pace publishes n events at a rate. It catches up at once after a delay. It publishes one event
// after the other, and stops at the first error.
func (b *bed) pace(ctx context.Context, f flow, n, perSecond int) error {
	begun, wait := time.Now(), time.NewTimer(0)
	defer wait.Stop()
	for i := range n {
		wait.Reset(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		select {
		case <-wait.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := b.publish(ctx, f, i); err != nil {
			return err
		}
	}
	return nil
}

// burst publishes n events as fast as eight publishers can. The events of a path are not in order.
func (b *bed) burst(ctx context.Context, f flow, n int) error {
	const publishers = 8
	return together(publishers, func(p int) error {
		for i := p; i < n; i += publishers {
			if err := b.publish(ctx, f, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// together makes n concurrent calls of f, with 0 to n-1, and returns their errors. It returns when
// all have returned.
func together(n int, f func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// reading is a snapshot of a system, or the maximum of several.
type reading struct {
	rss     int64 // bytes
	pending int   // unacknowledged deliveries of JetStream
	records int   // parked lanes in the bucket
}

func (r reading) most(other reading) reading {
	return reading{max(r.rss, other.rss), max(r.pending, other.pending), max(r.records, other.records)}
}

// watcher polls a system's state. take can be called at any time. stop ends it, waits for it, and
// returns its error; it can be called again.
type watcher struct {
	bed  *bed
	id   string
	stop func() error

	mu   sync.Mutex
	most reading // since it was last taken
}

// watch starts a watcher. With records it counts the parked lanes every second, which is work for
// the measured system. An error ends the watcher; only stop reports it.
func (b *bed) watch(ctx context.Context, id string, records func(context.Context, string) (int, error)) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{bed: b, id: id}
	ended := make(chan error, 1)
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	go func() { ended <- w.run(ctx, records) }()
	return w
}

// run polls ten times a second until ctx ends. It ends with the first error.
func (w *watcher) run(ctx context.Context, records func(context.Context, string) (int, error)) error {
	const listEvery = 10
	tick := time.NewTicker(time.Second / listEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		r := reading{rss: w.bed.proc.usage().rss}
		consumer, err := w.bed.js.Consumer(ctx, streams.Names{}.EventsStream(namespace), w.id)
		if err == nil {
			r.pending = consumer.CachedInfo().NumAckPending
		}
		if err == nil && records != nil && i%listEvery == 0 {
			r.records, err = records(ctx, w.id)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("watch: %w", err)
		}
		w.mu.Lock()
		w.most = w.most.most(r)
		w.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns the maximum since the last call.
func (w *watcher) take() reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.most
	w.most = reading{}
	return r
}

// records returns how many lanes of the subscription have a record.
func (b *bed) records(ctx context.Context, id string) (n int, err error) {
	bucket, err := b.js.KeyValue(ctx, streams.Lanes)
	if err != nil {
		return 0, err
	}
	keys, err := bucket.ListKeysFiltered(ctx, streams.LaneKeys(id))
	if err != nil {
		return 0, err
	}
	for range keys.Keys() {
		n++
	}
	return n, nil
}

// rests waits until everything is recorded and no lane is parked, or for long enough. A time-out is
// no error.
func (b *bed) rests(ctx context.Context, id string) error {
	until := time.Now().Add(patience)
	return poll(ctx, func() (bool, error) {
		status, err := b.api.Status(ctx, id)
		return status.Backlog == 0 && status.Parked == 0 || time.Now().After(until), err
	})
}

// attempts returns the subscription's attempt log, in order. It returns those that were stored when
// it began.
func (b *bed) attempts(ctx context.Context, id string) (all []sluice.Attempt, err error) {
	consumer, err := b.js.OrderedConsumer(ctx, streams.Names{}.Attempts(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{streams.Names{}.AttemptsSubject(namespace, id)},
	})
	if err != nil {
		return nil, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, err
	}
	msgs, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer msgs.Stop()
	for left := info.NumPending; left > 0; left-- {
		msg, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("attempt log, %d left: %w", left, err)
		}
		for line := range streams.SplitBlock(msg.Data()) {
			var a sluice.Attempt
			if err := json.Unmarshal(line, &a); err != nil {
				return nil, fmt.Errorf("attempt log: %w", err)
			}
			all = append(all, a)
		}
	}
	return all, nil
}
