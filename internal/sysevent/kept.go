package sysevent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	keptTimes = 10  // so many times as many as the queue has are kept of what is stored and could not be told
	keptBatch = 100 // that are published at once
	keptCheck = 30 * time.Second

	tellWithin = 24 * time.Hour // of what was not told for longer nobody hears any more
)

// keep has an announcement of something that is stored told later, once: it may have been told. It reports whether there was room.
func (a *Announcer) keep(n announcement) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= keptTimes*a.opts.Queue {
		return false
	}
	a.kept = append(a.kept, n)
	return true
}

// again has it told what may have been told before, by whoever stored it. What is older than a day is left: it may have been told, and have left the
// log since.
func (a *Announcer) again(n announcement) {
	if time.Since(n.at) > tellWithin {
		return
	}
	if !a.keep(n) {
		a.drop(n)
	}
}

// tellKept tells what was kept, in order of each namespace. What cannot be told is kept further.
func (a *Announcer) tellKept(ctx context.Context) {
	a.mu.Lock()
	kept := a.kept
	a.kept = nil
	a.mu.Unlock()
	if len(kept) == 0 {
		return
	}
	by := map[string][]announcement{}
	for _, n := range kept {
		by[n.namespace] = append(by[n.namespace], n)
	}
	for namespace, all := range by {
		for batch := range slices.Chunk(all, keptBatch) {
			if err := a.tellBatch(ctx, namespace, batch); err != nil {
				a.opts.Log.LogAttrs(ctx, slog.LevelDebug, "unpublished system events", slog.String("namespace", namespace), slog.Int("count", len(batch)), slog.Any("error", err))
				a.keepFurther(ctx, batch, err)
			}
		}
	}
}

func (a *Announcer) tellBatch(ctx context.Context, namespace string, batch []announcement) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	events := make([]sluice.Event, 0, len(batch))
	for _, n := range batch {
		ev, err := n.event()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e sluice.Event) bool { return e.ID == ev.ID }) {
			events = append(events, ev)
		}
	}
	return a.publishUnknown(ctx, namespace, events)
}

func (a *Announcer) keepFurther(ctx context.Context, batch []announcement, err error) {
	for _, n := range batch {
		if !passing(err) || !a.keep(n) {
			a.lose(ctx, n, err)
		}
	}
}

// passing reports whether what cannot be published now may be published later.
func passing(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // all others are about what is published
	case sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded:
		return true
	}
	return false
}
