package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// PublisherOptions are what a Publisher works with; zero values mean the defaults.
type PublisherOptions struct {
	Queue   int                        // events that wait at most; 1024
	Batch   int                        // events of one request at most; 100, and no more than 1000
	Timeout time.Duration              // of one request; 30 s
	Dropped func(*sluice.Event, error) // is told, while Run waits for it, of each event that was taken and is not stored; it may not call Close; nil: nobody is
}

// PublisherStats says what became of the events that were emitted: every one of them is in one of the three.
type PublisherStats struct {
	Stored  uint64 // the server confirmed them
	Dropped uint64 // refused by Emit, refused by the server, or left when the Publisher was closed
	Waiting int
}

// Publisher publishes events of one namespace for those who have no time to wait, in the order in which they come.
// Emit takes an event and never waits, whatever the server does; Run sends what was taken, many at once;
// Close sends the rest. While the server cannot be reached, or says that there is too much, Run tries again until it can, and
// what does not fit into the queue meanwhile is dropped and counted. Who has to know that an event is stored
// calls Publish. It is safe for concurrent use.
type Publisher struct {
	client    *Client
	namespace string
	opts      PublisherOptions
	news      chan struct{} // there may be something to do; of size one: told once is told
	done      chan struct{} // closed when Run has returned
	abandon   chan struct{} // closed when Close has given up

	mu       sync.Mutex
	queue    []sluice.Event
	inFlight int
	running  bool
	closed   bool
	given    bool // abandon is closed
	left     int  // events that were dropped because it ended
	cut      bool // some of them were on their way
	stats    PublisherStats
}

// NewPublisher returns a publisher, which sends nothing before Run is called.
func (c *Client) NewPublisher(namespace string, opts PublisherOptions) *Publisher {
	opts.Queue = cmp.Or(max(opts.Queue, 0), 1024)
	opts.Batch = min(cmp.Or(max(opts.Batch, 0), 100), 1000)
	opts.Timeout = cmp.Or(max(opts.Timeout, 0), 30*time.Second)
	return &Publisher{
		client: c, namespace: namespace, opts: opts,
		news: make(chan struct{}, 1), done: make(chan struct{}), abandon: make(chan struct{}),
	}
}

// Emit takes an event to be published soon, and reports whether it did: not if the queue is full, if the event has no valid
// path, or after Close. It neither waits nor panics, and what it did not take is counted as dropped. The event is
// the caller's again when it returns.
func (p *Publisher) Emit(ev sluice.Event) bool {
	_, err := sluice.ParsePath(string(ev.Path))
	if ev.ID == "" {
		ev.ID = newID(time.Now()) // so that a request can be repeated
	}
	ev.Data, ev.Extensions = bytes.Clone(ev.Data), maps.Clone(ev.Extensions)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.closed || len(p.queue) >= p.opts.Queue {
		p.stats.Dropped++
		return false
	}
	p.queue = append(p.queue, ev)
	p.notify()
	return true
}

// Publish stores events and returns where they lie, as Client.Publish does. It does not wait for what was emitted.
func (p *Publisher) Publish(ctx context.Context, events ...sluice.Event) ([]sluice.Stored, error) {
	return p.client.Publish(ctx, p.namespace, events...)
}

// Stats returns what became of the events so far.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Waiting = len(p.queue) + p.inFlight
	return stats
}

// Run sends what is emitted until Close is called and nothing waits any more, and returns nil then. If ctx ends before,
// it returns why; what waits stays where it is until Close. It is called once: code Conflict the second time.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	running := p.running
	p.running = true
	p.mu.Unlock()
	if running {
		return sluice.Errorf(sluice.Conflict, "the publisher runs already, or did")
	}
	defer close(p.done)
	ctx, stop := p.untilAbandoned(ctx)
	defer stop()
	for !p.over() && ctx.Err() == nil {
		batch, more := p.take()
		switch {
		case len(batch) > 0:
			p.send(ctx, batch)
		case !more:
			return nil
		default:
			select {
			case <-p.news:
			case <-ctx.Done():
			}
		}
	}
	if p.over() {
		return nil
	}
	return context.Cause(ctx)
}

// over reports whether the publisher is closed and nothing waits, or was left by Run.
func (p *Publisher) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed && len(p.queue) == 0 && !p.cut
}

// Close has Run send what waits, and returns when it has, or when ctx has ended: what was not sent then is dropped, and the
// error says how much that was. Nothing is taken any more.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	idle := !p.running && len(p.queue) == 0
	p.notify()
	p.mu.Unlock()
	if idle {
		return nil
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.giveUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		return fmt.Errorf("publisher of %s: %d events were not sent: %w", p.namespace, p.left, cmp.Or(context.Cause(ctx), errEnded))
	}
	return nil
}

var (
	errEnded     = errors.New("it no longer runs")
	errAbandoned = errors.New("the publisher was closed")
)

// giveUp ends Run, and drops what it has left.
func (p *Publisher) giveUp() {
	p.mu.Lock()
	if !p.given {
		p.given = true
		close(p.abandon)
	}
	running := p.running
	p.mu.Unlock()
	if running {
		<-p.done // it waits for nobody now
	}
	p.mu.Lock()
	rest := p.queue
	p.queue = nil
	p.left += p.inFlight                  // Run panicked, in Dropped maybe, with these on their way
	p.stats.Dropped += uint64(p.inFlight) //nolint:gosec // a count
	p.inFlight = 0
	p.mu.Unlock()
	p.leave(rest, errAbandoned)
}

// notify says that there may be something to do. The lock is held.
func (p *Publisher) notify() {
	select {
	case p.news <- struct{}{}:
	default: // it was said already
	}
}

// untilAbandoned returns a context that ends with ctx, or when Close gives up.
func (p *Publisher) untilAbandoned(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-p.abandon:
			cancel(errAbandoned)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// take returns the events that are sent next, and whether there may be others later.
func (p *Publisher) take() (batch []sluice.Event, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), p.opts.Batch)
	batch, p.queue = p.queue[:n:n], p.queue[n:]
	p.inFlight = n
	return batch, !p.closed
}

// send stores a batch; what the server refuses is left out.
func (p *Publisher) send(ctx context.Context, batch []sluice.Event) {
	err := p.store(ctx, batch)
	switch {
	case err == nil:
		p.mu.Lock()
		p.stats.Stored += uint64(len(batch))
		p.inFlight -= len(batch)
		p.mu.Unlock()
	case len(batch) > 1 && ctx.Err() == nil && concernsOne(err):
		p.send(ctx, batch[:len(batch)/2])
		p.send(ctx, batch[len(batch)/2:])
	case ctx.Err() != nil:
		p.leave(batch, context.Cause(ctx))
	default:
		p.drop(batch, err)
	}
}

// store publishes a batch, and again while that may help.
func (p *Publisher) store(ctx context.Context, batch []sluice.Event) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	return backoff.Retry(func() error {
		limit, cancel := context.WithTimeout(ctx, p.opts.Timeout)
		defer cancel()
		_, err := p.client.Publish(limit, p.namespace, batch...)
		code := sluice.CodeOf(err)
		if err == nil || ctx.Err() == nil && (code == sluice.Unavailable || code == sluice.QuotaExceeded || limit.Err() != nil) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(wait, ctx))
}

// concernsOne reports whether a batch may have been refused for one of its events, or for their number.
func concernsOne(err error) bool {
	code := sluice.CodeOf(err)
	return code != sluice.Unauthenticated && code != sluice.NotFound
}

// leave drops events that could have been sent later. One that was on its way may be stored all the same.
func (p *Publisher) leave(events []sluice.Event, err error) {
	p.mu.Lock()
	p.left += len(events)
	p.cut = p.cut || p.inFlight > 0
	p.mu.Unlock()
	p.drop(events, err)
}

// drop counts events that were taken and are not stored, and tells of them.
func (p *Publisher) drop(events []sluice.Event, err error) {
	p.mu.Lock()
	p.stats.Dropped += uint64(len(events))
	p.inFlight = max(p.inFlight-len(events), 0) // those that waited are not among them
	p.mu.Unlock()
	if p.opts.Dropped == nil {
		return
	}
	for i := range events {
		p.opts.Dropped(&events[i], err)
	}
}
