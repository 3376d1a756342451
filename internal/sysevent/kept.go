package sysevent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	keptTimes = 10  // limit of kept announcements, as a multiple of the queue's
	keptBatch = 100 // events that are published at once
	keptCheck = 30 * time.Second

	tellWithin = 24 * time.Hour // older announcements are given up
)

// keep schedules a retry of a stored announcement, which publishes it only if it is not published
// yet. It reports whether there was room. There is room for keptTimes as many announcements as in
// the queue.
func (a *Announcer) keep(n announcement) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= keptTimes*a.opts.Queue {
		return false
	}
	a.kept = append(a.kept, n)
	return true
}

// again schedules an announcement that the process that stored its state may have published. It
// ignores an announcement older than a day, which may have been published and have left the log
// since.
func (a *Announcer) again(n announcement) {
	if time.Since(n.at) > tellWithin {
		return
	}
	if !a.keep(n) {
		a.drop(n)
	}
}

// tellKept publishes kept announcements, in order within each namespace. It keeps failed ones,
// which then come after the others. Only runQueue calls it. Announcements that are kept during the
// call wait for the next one. Other batches do not wait for a failed one.
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

// keepFurther puts the announcements of a failed batch that may succeed later at the end of the
// list. The others are lost.
func (a *Announcer) keepFurther(ctx context.Context, batch []announcement, err error) {
	for _, n := range batch {
		if !passing(err) || !a.keep(n) {
			a.lose(ctx, n, err)
		}
	}
}

// passing reports whether a failed announcement may succeed later.
func passing(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // all other codes are about the event
	case sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded:
		return true
	}
	return false
}
