package durable

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// glance is a read in parallel with the stream's record: one round trip for both. Its end of the
// stream may be a moment older than the record.
type glance struct {
	done sync.WaitGroup

	last    uint64
	lastErr error

	after  uint64 // behind which the events lie
	events []sluice.Event
	err    error
}

// glance reads the end of a path, and the events behind a place if there is one.
func (e *Engine) glance(ctx context.Context, key Key, from Place) *glance {
	g := &glance{after: from.After}
	g.done.Go(func() { g.last, g.lastErr = e.store.Tail(ctx, key.Namespace, key.Path) })
	if !from.Now {
		g.done.Go(func() { g.events, g.err = e.store.Events(ctx, key.Namespace, key.Path, from.After, endless) })
	}
	return g
}

// end returns the end of a stream. For a closed one it reads it again, after the record: messages
// are stored before the record that closes the stream behind them, and none may be missing.
func (g *glance) end(ctx context.Context, e *Engine, s *stream) (uint64, error) {
	g.done.Wait()
	if s.Closed || g.lastErr != nil {
		return e.tail(ctx, s)
	}
	return s.end(g.last), nil
}

// take returns the events in (after, upTo] if they were read, once.
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
