package durable

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// glance reads a stream's end and its next events in parallel with the record, to save a round
// trip. The end may be slightly older than the record.
type glance struct {
	done sync.WaitGroup

	last    uint64
	lastErr error

	after  uint64 // the events are after it
	events []sluice.Event
	err    error
}

// glance starts to read the end of a path and, unless from is the end, the events behind from.
func (e *Engine) glance(ctx context.Context, key Key, from Place) *glance {
	g := &glance{after: from.After}
	g.done.Go(func() { g.last, g.lastErr = e.store.Tail(ctx, key.Namespace, key.Path) })
	if !from.Now {
		g.done.Go(func() { g.events, g.err = e.store.Events(ctx, key.Namespace, key.Path, from.After, endless) })
	}
	return g
}

// end returns the end of a stream. For a closed stream it reads the end again after the record,
// because messages that are stored right before the closing record must not be missing.
func (g *glance) end(ctx context.Context, e *Engine, s *stream) (uint64, error) {
	g.done.Wait()
	if s.Closed || g.lastErr != nil {
		return e.tail(ctx, s)
	}
	return s.end(g.last), nil
}

// take returns the events in (after, upTo] if they were read; none at a second call.
func (g *glance) take(after, upTo uint64) []sluice.Event {
	events := g.events
	if g.events = nil; g.err != nil || g.after != after {
		return nil
	}
	for i := range events {
		if events[i].Seq > upTo {
			return events[:i]
		}
	}
	return events
}
