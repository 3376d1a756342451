package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/ring"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	again     = 200 * time.Millisecond
	againMost = 5 * time.Second
)

// errBegan says that a log lost its end, or is another one under the same name.
var errBegan = errors.New("the log began anew")

// eventWeight is about what an event takes besides its data.
const eventWeight = 512

// readings is what a ring has.
var readings = ring.Of[sluice.Event]{ //nolint:gochecknoglobals // nobody changes it
	Seq: func(ev sluice.Event) uint64 { return ev.Seq }, Weight: func(ev sluice.Event) int { return len(ev.Data) + eventWeight },
}

// hub is the one reader of a namespace's log.
type hub struct {
	ready chan struct{} // closed when there is a ring, or an error
	ring  *ring.Ring[sluice.Event]
	err   error

	readers int
	stop    context.CancelFunc
}

// hubs are the readers of logs that somebody needs.
type hubs struct {
	log  Log
	opts Options

	mu  sync.Mutex
	all map[string]*hub
}

// enter returns the ring of a namespace, which covers the log from before the call on, and what to call at the end. What is
// started for it ends with the last who needs it; launch starts it.
func (h *hubs) enter(ctx context.Context, namespace string, launch func(func(context.Context))) (*ring.Ring[sluice.Event], func(), error) {
	h.mu.Lock()
	one := h.all[namespace]
	if one == nil {
		one = &hub{ready: make(chan struct{})}
		h.all[namespace] = one
		stopped := make(chan struct{})
		one.stop = sync.OnceFunc(func() { close(stopped) })
		launch(func(ctx context.Context) { h.follow(ctx, namespace, one, stopped) })
	}
	one.readers++
	h.mu.Unlock()
	leave := sync.OnceFunc(func() { h.leave(namespace, one) })
	select {
	case <-one.ready:
	case <-ctx.Done():
		leave()
		return nil, nil, context.Cause(ctx)
	}
	if one.err != nil {
		leave()
		return nil, nil, one.err
	}
	return one.ring, leave, nil
}

func (h *hubs) leave(namespace string, one *hub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one.readers--; one.readers == 0 {
		h.forget(namespace, one)
		one.stop()
	}
}

// forget has whoever comes now get another hub. The caller holds the lock.
func (h *hubs) forget(namespace string, one *hub) {
	if h.all[namespace] == one {
		delete(h.all, namespace)
	}
}

// follow fills the ring of a namespace until nobody needs it, ctx ends, or there is nothing to follow any more.
func (h *hubs) follow(ctx context.Context, namespace string, one *hub, stopped <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		defer cancel()
		select {
		case <-stopped:
		case <-ctx.Done():
		}
	})
	defer one.stop()
	_, last, err := h.log.Ends(ctx, namespace)
	if err != nil {
		one.err = err
	} else {
		one.ring = ring.New(readings, h.opts.Ring, h.opts.RingBytes, last)
	}
	close(one.ready)
	if err == nil {
		err = h.fill(ctx, namespace, one.ring)
	}
	h.mu.Lock()
	h.forget(namespace, one) // first: whoever is told asks again
	h.mu.Unlock()
	if one.ring != nil {
		one.ring.End(err)
	}
}

// fill reads a log into a ring, and goes on after trouble where it was. It returns why it ends.
func (h *hubs) fill(ctx context.Context, namespace string, r *ring.Ring[sluice.Event]) error {
	wait := again
	for {
		var anew error
		err := h.log.Tail(ctx, namespace, r.Last(), func(ev sluice.Event) error {
			wait = again
			if !r.Add(ev) {
				anew = errBegan
			}
			return anew
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case anew != nil:
			return anew
		}
		h.opts.Log.WarnContext(ctx, "follow a log for its watches", slog.String("namespace", namespace), slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, againMost)
		first, last, err := h.log.Ends(ctx, namespace)
		switch {
		case sluice.CodeOf(err) == sluice.NotFound:
			return err
		case err != nil: // who follows it meets the trouble again
		case last < r.Last(), first > r.Last()+1:
			return errBegan
		}
	}
}
