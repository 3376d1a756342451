package feed

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/ring"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// hub is the one reader of a namespace's log. It fills a ring, and looks at what is old in there for the feeds whose
// readers take nothing.
type hub struct {
	engine    *Engine
	namespace string

	ready chan struct{} // closed when there is a ring, or an error
	ring  *ring.Ring[*Item]
	err   error
	made  time.Time // the log
	pages pages

	shared atomic.Uint64 // feeds that use it

	// Under the engine's lock.
	entered int                // who may use the ring
	feeds   map[*Feed]struct{} // that run
	idle    *time.Timer        // ends the hub; nil: somebody reads
	stop    context.CancelFunc
}

// enter returns the hub of a namespace, whose ring covers the log from before the call on, and what to call at the end.
func (e *Engine) enter(ctx context.Context, namespace string) (*hub, func(), error) { //nolint:contextcheck // a hub outlives who comes first
	e.mu.Lock()
	if e.running == nil {
		e.mu.Unlock()
		return nil, nil, errStopping()
	}
	h := e.hubs[namespace]
	if h == nil {
		h = &hub{engine: e, namespace: namespace, ready: make(chan struct{}), feeds: map[*Feed]struct{}{}}
		h.pages.read = func(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
			return e.log.Page(ctx, namespace, pattern, after, upTo)
		}
		inner, stop := context.WithCancel(e.running)
		h.stop = stop
		e.hubs[namespace] = h
		e.all.Go(func() { h.follow(inner) })
	}
	h.entered++
	h.shared.Add(1)
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
	h.shared.Add(^uint64(0))
	if h.entered--; h.entered == 0 {
		h.idle = time.AfterFunc(e.opts.Linger, h.retire)
	}
}

// retire ends a hub that nobody reads.
func (h *hub) retire() {
	e := h.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.entered > 0 {
		return
	}
	if e.hubs[h.namespace] == h {
		delete(e.hubs, h.namespace) // at once: whoever comes now gets another one
	}
	h.stop()
}

// forget has whoever comes now get another hub.
func (h *hub) forget() {
	e := h.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hubs[h.namespace] == h {
		delete(e.hubs, h.namespace)
	}
	if h.idle != nil {
		h.idle.Stop()
	}
}

// attach has the hub look after a feed that runs, until detach.
func (h *hub) attach(f *Feed) (detach func()) {
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	h.feeds[f] = struct{}{}
	return func() {
		h.engine.mu.Lock()
		defer h.engine.mu.Unlock()
		delete(h.feeds, f)
	}
}

func (h *hub) running() []*Feed {
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	return slices.Collect(maps.Keys(h.feeds))
}

// follow fills the ring until ctx ends or there is nothing to follow any more.
func (h *hub) follow(ctx context.Context) {
	defer h.stop()
	var last uint64
	var err error
	if h.made, err = h.engine.log.Made(ctx, h.namespace); err == nil {
		_, last, err = h.engine.log.Ends(ctx, h.namespace)
	}
	if err != nil {
		h.err = err
		h.forget()
		close(h.ready)
		return
	}
	h.ring = ring.New(items, h.engine.opts.Ring, h.engine.share(), last)
	h.ring.Guard()
	close(h.ready)
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	sweeping.Go(func() { h.sweep(ctx) })
	err = h.fill(ctx)
	h.forget() // first: whoever is told asks again
	h.ring.End(err)
	for _, f := range h.running() {
		f.end(err) // also those whose readers take nothing
	}
	h.stop()
}

// fill reads the log into the ring, and goes on after trouble where it was. It returns why it ends.
func (h *hub) fill(ctx context.Context) error {
	e, wait := h.engine, again
	for {
		var anew error
		err := e.log.Tail(ctx, h.namespace, h.ring.Last(), func(ev sluice.Event) error {
			wait = again
			it := NewItem(ev)
			if err := h.room(ctx, it); err != nil {
				return err
			}
			if !h.ring.Add(it) {
				anew = began()
			}
			return anew
		})
		switch {
		case ctx.Err() != nil:
			return errStopping()
		case anew != nil:
			return anew
		}
		e.opts.Log.WarnContext(ctx, "follow a log for its feeds", slog.String("namespace", h.namespace), slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, againMost)
		if over := h.over(ctx); over != nil {
			return over
		}
	}
}

// nearEach is about how many bytes of the log a feed may have to look at more than it wants, so that all who come back at
// once read the same pages.
const nearEach = 256 << 10

// behind returns what comes next in the log for a feed that is behind the ring, and up to where there is nothing else. It goes
// on where the ring has it too: whoever stopped where the ring begins would be behind it again.
func (h *hub) behind(ctx context.Context, pattern sluice.Pattern, place uint64) ([]*Item, uint64, error) {
	if (h.ring.From()-place)*h.ring.Mean() <= h.shared.Load()*nearEach {
		pattern = everything
	}
	return h.pages.behind(ctx, pattern, place, h.ring.Last())
}

// over returns why the log cannot be followed behind the ring any more, nil if it can, or if nobody knows.
func (h *hub) over(ctx context.Context) error {
	head := h.ring.Last()
	first, last, err := h.engine.log.Ends(ctx, h.namespace)
	made := h.made
	if err == nil {
		made, err = h.engine.log.Made(ctx, h.namespace)
	}
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return nil // who follows it meets the trouble again
	}
	switch {
	case err != nil:
		return err
	case !made.Equal(h.made):
		return sluice.Errorf(sluice.WindowExceeded, "the namespace was deleted and made again: its log is another one, from sequence 1 on").
			With("oldest_available_seq", first).With("current_seq", last)
	case last < head:
		return began()
	case first > head+1:
		return sluice.Errorf(sluice.WindowExceeded, "what came next left the log before it was read; start at sequence %d or later", first).
			With("oldest_available_seq", first).With("current_seq", last)
	}
	return nil
}

// room waits until an item pushes out nothing that a feed has not looked at. Only the reading of the log waits, never
// who publishes.
func (h *hub) room(ctx context.Context, it *Item) error {
	for {
		swept := h.ring.Room(it)
		if swept == nil {
			return nil
		}
		select {
		case <-swept:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sweep looks at what is oldest in the ring for all feeds that have not, whenever the ring fills. Those that look
// by themselves at that moment are left alone: they are about to, or read the log.
func (h *hub) sweep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.ring.Filling():
		}
		upTo := h.ring.Middle()
		for _, f := range h.running() {
			f.sweep(upTo)
			runtime.Gosched() // there may be thousands, and others have to go on
		}
		h.ring.SweptTo(upTo)
	}
}
