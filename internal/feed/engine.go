package feed

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Gate says what may leave, and when that changes.
type Gate interface {
	// Shows says whether a caller may see an event.
	Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) sluice.Decision
	// May says whether a caller may have anything of what it asks for.
	May(c sluice.Caller, v sluice.Verb, wants sluice.Object, now time.Time) sluice.Decision
	// Applied returns what is closed when the answers may be others.
	Applied() (revision uint64, changed <-chan struct{})
}

// Options is what an engine works with.
type Options struct {
	Ring      int                        // events of each namespace that are kept for readers; DefaultRing
	MaxBuffer int                        // frames that a reader may be behind; DefaultMaxBuffer
	Heartbeat time.Duration              // after which a feed that sends nothing says so; DefaultHeartbeat
	Linger    time.Duration              // for which a ring is kept that nobody reads; 30 s
	RingBytes int                        // of each ring, whatever the number of events; 64 MiB
	Summary   func(*sluice.Event) []byte // what of an event's data is a summary; nil: nothing
	Labels    filter.Labels              // of event types; nil: they have none
	PublicURL string                     // where events can be read; empty: it is not said
	Log       *slog.Logger               // slog.DiscardHandler
}

// Defaults of Options.
const (
	DefaultRing      = 1024
	DefaultMaxBuffer = 16384
	DefaultHeartbeat = 15 * time.Second

	defaultLinger    = 30 * time.Second
	defaultRingBytes = 64 << 20
	again            = 200 * time.Millisecond
	againMost        = 5 * time.Second
)

// Engine serves feeds. Its methods may be called at once.
type Engine struct {
	log  Log
	gate Gate
	opts Options
	draw renderer

	feeds  atomic.Int64
	lagged atomic.Uint64

	mu      sync.Mutex
	running context.Context //nolint:containedctx // of the hubs, which end with Run; nil: it does not run
	hubs    map[string]*hub
	all     sync.WaitGroup // hubs and feeds
}

// New returns an engine that serves nobody before Run.
func New(log Log, gate Gate, opts Options) *Engine {
	opts.Ring = cmp.Or(opts.Ring, DefaultRing)
	opts.MaxBuffer = cmp.Or(opts.MaxBuffer, DefaultMaxBuffer)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, DefaultHeartbeat)
	opts.Linger = cmp.Or(opts.Linger, defaultLinger)
	opts.RingBytes = cmp.Or(opts.RingBytes, defaultRingBytes)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{log: log, gate: gate, opts: opts, draw: renderer{opts.Summary, opts.PublicURL}, hubs: map[string]*hub{}}
}

// Run serves feeds until ctx ends, and returns when all have ended.
func (e *Engine) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.running = inner
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.running = nil
	e.mu.Unlock()
	e.all.Wait()
	return context.Cause(ctx)
}

// Feeds returns how many feeds there are now, and how many frames readers have missed since the start.
func (e *Engine) Feeds() (open int64, missed uint64) { return e.feeds.Load(), e.lagged.Load() }

// errStopping is why feeds end with the server.
func errStopping() error {
	return sluice.Errorf(sluice.Unavailable, "the server is going away; ask again, behind the last sequence")
}

// began is why feeds end of a log that lost its end, or is another one under the same name.
func began() error {
	return sluice.Errorf(sluice.Unavailable, "the log began anew; ask again")
}

// hub is the one reader of a namespace's log.
type hub struct {
	namespace string

	ready chan struct{} // closed when there is a ring, or an error
	ring  *ring
	err   error

	feeds int
	idle  *time.Timer // ends the hub; nil: somebody reads
	stop  context.CancelFunc
}

// enter returns the ring of a namespace, which covers the log from before the call on, and what to call at the end.
func (e *Engine) enter(ctx context.Context, namespace string) (*hub, func(), error) { //nolint:contextcheck // a hub outlives who comes first
	e.mu.Lock()
	if e.running == nil {
		e.mu.Unlock()
		return nil, nil, errStopping()
	}
	h := e.hubs[namespace]
	if h == nil {
		h = &hub{namespace: namespace, ready: make(chan struct{})}
		inner, stop := context.WithCancel(e.running)
		h.stop = stop
		e.hubs[namespace] = h
		e.all.Go(func() { e.follow(inner, h) })
	}
	h.feeds++
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	e.all.Add(1)
	e.mu.Unlock()
	leave := sync.OnceFunc(func() { e.leave(h) })
	select {
	case <-h.ready:
	case <-ctx.Done():
		leave()
		return nil, nil, context.Cause(ctx)
	}
	if h.err != nil {
		leave()
		return nil, nil, h.err
	}
	return h, leave, nil
}

func (e *Engine) leave(h *hub) {
	defer e.all.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.feeds--; h.feeds == 0 {
		h.idle = time.AfterFunc(e.opts.Linger, func() { e.retire(h) })
	}
}

// retire ends a hub that nobody reads.
func (e *Engine) retire(h *hub) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.feeds > 0 {
		return
	}
	if e.hubs[h.namespace] == h {
		delete(e.hubs, h.namespace) // at once: whoever comes now gets another one
	}
	h.stop()
}

// follow fills the ring of a namespace until ctx ends or there is nothing to follow any more.
func (e *Engine) follow(ctx context.Context, h *hub) {
	defer h.stop()
	_, last, err := e.log.Ends(ctx, h.namespace)
	if err != nil {
		h.err = err
		e.forget(h)
		close(h.ready)
		return
	}
	h.ring = newRing(e.opts.Ring, e.opts.RingBytes, last)
	close(h.ready)
	err = e.fill(ctx, h.namespace, h.ring)
	e.forget(h) // first: whoever is told asks again
	h.ring.end(err)
}

func (e *Engine) forget(h *hub) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hubs[h.namespace] == h {
		delete(e.hubs, h.namespace)
	}
	if h.idle != nil {
		h.idle.Stop()
	}
}

// over returns why a log cannot be followed behind a sequence any more, nil if it can, or if nobody knows.
func (e *Engine) over(ctx context.Context, namespace string, head uint64) error {
	first, last, err := e.log.Ends(ctx, namespace)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return nil // who follows it meets the trouble again
	}
	switch {
	case err != nil:
		return err
	case last < head:
		return began()
	case first > head+1:
		return sluice.Errorf(sluice.WindowExceeded, "what came next left the log before it was read; start at sequence %d or later", first).
			With("oldest_available_seq", first).With("current_seq", last)
	}
	return nil
}

// fill reads a log into a ring, and goes on after trouble where it was. It returns why it ends.
func (e *Engine) fill(ctx context.Context, namespace string, r *ring) error {
	wait := again
	for {
		var anew error
		err := e.log.Tail(ctx, namespace, r.last(), func(ev sluice.Event) error {
			wait = again
			anew = r.add(NewItem(ev))
			return anew
		})
		switch {
		case ctx.Err() != nil:
			return errStopping()
		case anew != nil:
			return anew
		}
		e.opts.Log.WarnContext(ctx, "follow a log for its feeds", slog.String("namespace", namespace), slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, againMost)
		if over := e.over(ctx, namespace, r.last()); over != nil {
			return over
		}
	}
}
