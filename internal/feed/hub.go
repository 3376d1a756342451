package feed

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tail reads a namespace's log for feeds.
type tail = logtail.Tail[*Item, *hub]

// hub complements the log reader of a namespace. It caches pages of events that have left the ring,
// and looks at the ring's oldest events for feeds whose readers are blocked.
type hub struct {
	engine *Engine
	tail   *tail
	log    string // the incarnation of the log
	pages  pages

	shared atomic.Uint64 // feeds that use it

	feeds map[*Feed]struct{} // running feeds; under the engine's lock
}

// newHubs returns the hubs of an engine.
func newHubs(e *Engine) *logtail.Set[*Item, *hub] {
	return logtail.New(logtail.Deps[*Item, *hub]{
		Log: e.log, Item: NewItem, Beside: e.newHub,
		Ring: func(last uint64) *ringbuffer.Ring[*Item] {
			r := ringbuffer.New(items, e.opts.Ring, e.share(), last)
			r.Guard()
			return r
		},
		Open: func(ctx context.Context, t *tail) (err error) {
			t.Beside.log, err = e.log.Incarnation(ctx, t.Namespace)
			return err
		},
		Room:  func(ctx context.Context, t *tail, it *Item) error { return t.Beside.room(ctx, it) },
		While: func(ctx context.Context, t *tail) { t.Beside.sweep(ctx) },
		Over:  func(ctx context.Context, t *tail) error { return t.Beside.over(ctx) },
		Ended: func(t *tail, why error) {
			for _, f := range t.Beside.running() {
				f.end(why) // this also ends feeds whose readers are blocked
			}
		},
		Began: began, Stopping: func() error { return ErrStopping }, Linger: e.opts.Linger, For: "feeds", Slog: e.opts.Log,
	})
}

func (e *Engine) newHub(t *tail) *hub {
	h := &hub{engine: e, tail: t, feeds: map[*Feed]struct{}{}}
	h.pages.read = func(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
		return e.log.Page(ctx, t.Namespace, pattern, after, upTo)
	}
	return h
}

// enter returns the hub of a namespace, and a function that the caller calls when it leaves. The
// ring of the hub covers every event that is stored after the call.
func (e *Engine) enter(ctx context.Context, namespace string) (*hub, func(), error) {
	t, leave, err := e.hubs.Enter(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	h := t.Beside
	h.shared.Add(1)
	return h, sync.OnceFunc(func() {
		h.shared.Add(^uint64(0))
		leave()
	}), nil
}

// ring returns the ring of the hub.
func (h *hub) ring() *ringbuffer.Ring[*Item] { return h.tail.Ring() }

// attach registers a running feed with the hub, until detach.
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

// nearEach is about how many bytes of events that it does not want each feed may read, so that
// feeds that return at the same time can share pages.
const nearEach = 256 << 10

// behind returns the next events of the log for a feed that is behind the ring, and the sequence up
// to which there are no others. It reads on into the range of the ring, because the ring moves on:
// a feed that stopped at the ring's beginning would soon be behind it again.
func (h *hub) behind(ctx context.Context, pattern sluice.Pattern, place uint64) ([]*Item, uint64, error) {
	if (h.ring().From()-place)*h.ring().Mean() <= h.shared.Load()*nearEach {
		pattern = everything
	}
	return h.pages.behind(ctx, pattern, place, h.ring().Last())
}

// over returns why the log cannot be followed any more; nil if it can, or if that is unknown.
func (h *hub) over(ctx context.Context) error {
	head := h.ring().Last()
	first, last, err := h.engine.log.Ends(ctx, h.tail.Namespace)
	now := h.log
	if err == nil {
		now, err = h.engine.log.Incarnation(ctx, h.tail.Namespace)
	}
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return nil // the log reader runs into the error again
	}
	switch {
	case err != nil:
		return err
	case now != h.log:
		return anotherLog(now, first, last)
	case last < head:
		return began()
	case first > head+1:
		return sluice.Errorf(sluice.WindowExceeded, "the next events left the log before they were read; start at sequence %d or later", first).
			With("oldest_available_seq", first).With("current_seq", last)
	}
	return nil
}

// anotherLog returns the error for a position in another incarnation of the log.
func anotherLog(incarnation string, first, last uint64) *sluice.Error {
	return sluice.Errorf(sluice.WindowExceeded, "the namespace was recreated or restored: its log is another one, whose sequences belong to other events").
		With("reason", "another_log").With("incarnation", incarnation).With("oldest_available_seq", first).With("current_seq", last)
}

// room waits until adding an item evicts only events that all feeds have processed. Only the log
// reader waits, never a publisher.
func (h *hub) room(ctx context.Context, it *Item) error {
	for {
		swept := h.ring().Room(it)
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

// A sweep works in pieces of about this length. While the ring has room for new events, it rests
// after each piece, so that it takes a quarter of a processor: publishers need the same processors.
const (
	sweepPiece = time.Millisecond
	sweepRest  = 3 // length of a rest, in pieces
)

// sweep looks at the ring's oldest events for all feeds that have not done so, whenever the ring
// fills. It skips feeds that look by themselves at that moment: they catch up, or read the log.
func (h *hub) sweep(ctx context.Context) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.ring().Filling():
		}
		upTo, begun := h.ring().Middle(), time.Now()
		for _, f := range h.running() {
			f.sweep(upTo)
			runtime.Gosched() // there may be thousands of feeds
			worked := time.Since(begun)
			if worked < sweepPiece {
				continue
			}
			if !h.ring().IsPressed() {
				alarm.Reset(sweepRest * worked)
				await(ctx, nil, alarm.C)
			}
			begun = time.Now()
		}
		h.ring().SweptTo(upTo)
	}
}
