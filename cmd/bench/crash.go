package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// crashPlan is the rows of systems that are killed at full load and started again.
//
// The times of a row:
//
//	before        kill                  ready                  after
//	├─────────────┼──────────────────────┼─────────────────────┤
//	 full load    acks, arrivals: armed  publishers reconnect  missing is counted, within patience
//	              └──────── ready ───────┘
//
// Events are published with an id each, until they are acknowledged, so that a repetition is stored
// once within the dedup window.
type crashPlan struct {
	publishers, paths, window int
	before, after             time.Duration // the load around the kill
	rounds                    int
}

// crashRow is the result of a row.
type crashRow struct {
	events, missing int
	ready           time.Duration // from the kill until the system says that it is ready
	acks, arrivals  time.Duration // the longest time without one since the kill
}

// starting starts a system in a directory, with its data if there are any.
type starting func(ctx context.Context, dir, hook string) (*process, error)

func (p crashPlan) table(e env) table[crashRow] {
	const bare = "bare loop"
	loop := func(ctx context.Context, dir, hook string) (*process, error) {
		return startLoop(ctx, dir, defaultSync, hook, p.window)
	}
	start := starter(e.binary, nil)
	ours := func(ctx context.Context, dir, hook string) (*process, error) {
		return start(ctx, dir, defaultSync, hook, p.window)
	}
	return table[crashRow]{
		name: "crash", title: "A crash under load", plot: "without arrivals ms", rounds: p.rounds,
		about: fmt.Sprintf("%d publishers, each waiting for its acknowledgement, publish as fast as they can over %d paths. "+
			"After %s the system is killed (`kill -9`) and started again at once, with the data that it stored. "+
			"The times are from the kill, and the longest without an acknowledgement or an arrival.", p.publishers, p.paths, p.before),
		columns: []column[crashRow]{
			counted("acknowledged", func(r crashRow) int { return r.events }),
			counted("missing", func(r crashRow) int { return r.missing }),
			inMillis("ready", func(r crashRow) time.Duration { return r.ready }),
			inMillis("without acknowledgements", func(r crashRow) time.Duration { return r.acks }),
			inMillis("without arrivals", func(r crashRow) time.Duration { return r.arrivals }),
		},
		subjects: []subject[crashRow]{
			one(head{Name: bare}, func(ctx context.Context, e env) (crashRow, error) { return p.round(ctx, e, loop) }),
			one(head{Name: "Sluice", Base: bare}, func(ctx context.Context, e env) (crashRow, error) { return p.round(ctx, e, ours) }),
		},
	}
}

// round kills a system once.
func (p crashPlan) round(ctx context.Context, e env, start starting) (r crashRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.before+p.after+2*limit, errLimit)
	defer cancel()
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return r, err
	}
	var arrivals pauses
	hook, err := station(ctx, func(_ mark, before int) (int, time.Duration) {
		if before == 0 {
			arrivals.note()
		}
		return http.StatusOK, 0
	})
	if err != nil {
		return r, err
	}
	defer hook.close()
	load := &crashLoad{crashPlan: p, start: func() (*process, error) { return start(ctx, dir, hook.url) }}
	defer func() { err = errors.Join(err, load.end()) }()
	if err := load.begin(ctx); err != nil {
		return r, err
	}
	<-time.After(p.before)
	arrivals.arm()
	if r.ready, err = load.crash(ctx); err != nil {
		return r, err
	}
	<-time.After(p.after)
	load.stop()
	r.events, r.acks, r.arrivals = load.acks.count(), load.acks.read(), arrivals.read()
	until := time.Now().Add(patience)
	err = poll(ctx, func() (bool, error) { return arrivals.count() >= r.events || time.Now().After(until), nil })
	r.missing = max(0, r.events-arrivals.count())
	return r, err
}

// pauses is the longest time without an occurrence. It is safe for concurrent use. A pause that has
// not ended when it is read does not count.
type pauses struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
	armed   bool
	n       int
}

// arm begins the measurement: at the last occurrence before it.
func (p *pauses) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true
}

// note enters an occurrence.
func (p *pauses) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.armed {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
	p.n++
}

func (p *pauses) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *pauses) read() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}

// crashLoad is a system, and publishers that go on when it is killed and started again. begin,
// crash and end are for one goroutine, in this order; end must be called, too, after an error.
type crashLoad struct {
	crashPlan

	start func() (*process, error)
	proc  *process // that runs
	acks  pauses
	at    atomic.Pointer[reachable] // nil: nowhere
	stop  func()                    // ends publishing
}

// reachable is a connection to a running system.
type reachable struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	ctx context.Context //nolint:containedctx // ends with the system
	end context.CancelFunc
}

// begin starts the system and the publishers.
func (l *crashLoad) begin(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var publishing sync.WaitGroup
	l.stop = func() {
		cancel()
		publishing.Wait()
	}
	if err := l.reach(ctx); err != nil {
		return err
	}
	for n := range l.publishers {
		publishing.Go(func() { l.publish(ctx, n) })
	}
	return nil
}

// reach starts the system, and lets the publishers go there.
func (l *crashLoad) reach(ctx context.Context) (err error) {
	if l.proc, err = l.start(); err != nil {
		return err
	}
	nc, err := nats.Connect(l.proc.nats, nats.NoReconnect())
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	l.at.Store(&reachable{nc, js, ctx, end})
	return nil
}

// crash kills the system and starts it again. It returns the time until it is ready.
func (l *crashLoad) crash(ctx context.Context) (time.Duration, error) {
	l.acks.arm()
	killed := time.Now()
	l.leave()
	_ = l.proc.cmd.Process.Kill() // it has not ended
	<-l.proc.ended
	err := l.reach(ctx)
	return time.Since(killed), err
}

// leave ends the load on the present process.
func (l *crashLoad) leave() {
	if at := l.at.Swap(nil); at != nil {
		at.end()
		at.nc.Close()
	}
}

// end ends publishing, and the system.
func (l *crashLoad) end() error {
	l.stop()
	l.leave()
	if l.proc == nil {
		return nil
	}
	return l.proc.stop()
}

// publish publishes a publisher's events until ctx ends, each until it is acknowledged. A publisher
// has one event in flight.
func (l *crashLoad) publish(ctx context.Context, publisher int) {
	for number := publisher; ctx.Err() == nil; number += l.publishers {
		path := sluice.Path(fmt.Sprintf("/%s/p%d", consumerName, number%l.paths))
		for ctx.Err() == nil && !l.try(streams.Names{}.Subject(namespace, path), number) { //nolint:contextcheck // it ends with the system
			<-time.After(time.Millisecond)
		}
	}
}

// try makes one attempt to publish, which takes a second at most, and reports whether it was
// acknowledged. An event of a failed attempt may be stored nevertheless.
func (l *crashLoad) try(subject string, number int) bool {
	at := l.at.Load()
	if at == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(at.ctx, time.Second)
	defer cancel()
	if _, err := at.js.Publish(ctx, subject, body(0, number, time.Now(), size), jetstream.WithMsgID(fmt.Sprint("crash-", number))); err != nil {
		return false
	}
	l.acks.note()
	return true
}
