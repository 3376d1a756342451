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

// PublisherOptions configure a Publisher; zero values mean the defaults.
type PublisherOptions struct {
	Queue   int           // maximum number of queued events; default 1024
	Batch   int           // maximum number of events per request; default 100, at most 1000
	Timeout time.Duration // timeout of one request; default 30 s
	// Called by Run for each accepted event that is not stored; must not call Close; may be nil.
	Dropped func(*sluice.Event, error)
}

// PublisherStats counts the emitted events; each of them is in exactly one of the three counters.
type PublisherStats struct {
	Stored  uint64 // confirmed by the server
	Dropped uint64 // refused by Emit or by the server, or left when the Publisher was closed
	Waiting int
}

// Publisher publishes events of one namespace in the background, in order. Emit enqueues an event
// and never blocks, whatever the state of the server. Run sends the queued events in batches. Close
// sends the remaining ones. While the server is unreachable or over its quota, Run retries; events
// that do not fit into the queue in the meantime are dropped and counted. To be certain that an
// event is stored, call Publish. A Publisher is safe for concurrent use.
type Publisher struct {
	client    *Client
	namespace string
	opts      PublisherOptions
	news      chan struct{} // signals that there may be work; a buffer of one is enough
	done      chan struct{} // closed when Run has returned
	abandon   chan struct{} // closed when Close has given up

	mu       sync.Mutex
	queue    []sluice.Event
	inFlight int
	running  bool
	closed   bool
	given    bool // abandon is closed
	left     int  // number of events dropped at the end
	cut      bool // some of the dropped events were in flight
	stats    PublisherStats
}

// NewPublisher returns a publisher. It sends nothing until Run is called.
func (c *Client) NewPublisher(namespace string, opts PublisherOptions) *Publisher {
	opts.Queue = cmp.Or(max(opts.Queue, 0), 1024)
	opts.Batch = min(cmp.Or(max(opts.Batch, 0), 100), 1000)
	opts.Timeout = cmp.Or(max(opts.Timeout, 0), 30*time.Second)
	return &Publisher{
		client: c, namespace: namespace, opts: opts,
		news: make(chan struct{}, 1), done: make(chan struct{}), abandon: make(chan struct{}),
	}
}

// Emit enqueues an event and reports whether it was accepted. It refuses if the queue is full, if
// the event has no valid path, and after Close. It neither blocks nor panics, and a refused event
// counts as dropped. The caller may reuse the event when Emit returns.
func (p *Publisher) Emit(ev sluice.Event) bool {
	_, err := sluice.ParsePath(string(ev.Path))
	if ev.ID == "" {
		ev.ID = newID(time.Now()) // makes the request idempotent
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

// Publish stores events and returns their positions, like Client.Publish. It does not wait for
// emitted events.
func (p *Publisher) Publish(ctx context.Context, events ...sluice.Event) ([]sluice.Stored, error) {
	return p.client.Publish(ctx, p.namespace, events...)
}

// Stats returns the counters so far.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Waiting = len(p.queue) + p.inFlight
	return stats
}

// Run sends emitted events until Close is called and the queue is empty, and then returns nil. If
// ctx ends first, it returns the reason; queued events stay until Close. Run can be called once;
// the second call returns code Conflict.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	running := p.running
	p.running = true
	p.mu.Unlock()
	if running {
		return sluice.Errorf(sluice.Conflict, "Run was already called")
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

// over reports whether the publisher is closed, its queue is empty, and Run left no events behind.
func (p *Publisher) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed && len(p.queue) == 0 && !p.cut
}

// Close makes Run send the queued events, and returns when they are sent or ctx has ended. Events
// that were not sent are dropped, and the error gives their number. After Close, no events are
// accepted.
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
	errEnded     = errors.New("the publisher is no longer running")
	errAbandoned = errors.New("the publisher was closed")
)

// giveUp ends Run and drops the remaining events.
func (p *Publisher) giveUp() {
	p.mu.Lock()
	if !p.given {
		p.given = true
		close(p.abandon)
	}
	running := p.running
	p.mu.Unlock()
	if running {
		<-p.done // Run does not block any more
	}
	p.mu.Lock()
	rest := p.queue
	p.queue = nil
	p.left += p.inFlight                  // Run panicked, maybe in Dropped, with these in flight
	p.stats.Dropped += uint64(p.inFlight) //nolint:gosec // a count
	p.inFlight = 0
	p.mu.Unlock()
	p.leave(rest, errAbandoned)
}

// notify signals that there may be work. The lock is held.
func (p *Publisher) notify() {
	select {
	case p.news <- struct{}{}:
	default: // already signalled
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

// take returns the next batch of events, and whether more may follow later.
func (p *Publisher) take() (batch []sluice.Event, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), p.opts.Batch)
	batch, p.queue = p.queue[:n:n], p.queue[n:]
	p.inFlight = n
	return batch, !p.closed
}

// send stores a batch; events that the server refuses are left out.
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

// store publishes a batch and retries while that may help.
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

// concernsOne reports whether a batch may have been refused because of one of its events, or
// because of its size.
func concernsOne(err error) bool {
	code := sluice.CodeOf(err)
	return code != sluice.Unauthenticated && code != sluice.NotFound
}

// leave drops events that could have been sent later. An event in flight may be stored
// nevertheless.
func (p *Publisher) leave(events []sluice.Event, err error) {
	p.mu.Lock()
	p.left += len(events)
	p.cut = p.cut || p.inFlight > 0
	p.mu.Unlock()
	p.drop(events, err)
}

// drop counts accepted events that are not stored, and reports them.
func (p *Publisher) drop(events []sluice.Event, err error) {
	p.mu.Lock()
	p.stats.Dropped += uint64(len(events))
	p.inFlight = max(p.inFlight-len(events), 0) // queued events are not among them
	p.mu.Unlock()
	if p.opts.Dropped == nil {
		return
	}
	for i := range events {
		p.opts.Dropped(&events[i], err)
	}
}
