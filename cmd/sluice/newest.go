package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// newestLeast is the smallest part of a log that is searched for the newest events.
const newestLeast = 1000

// newest finds the newest events of a namespace that are in a range and match a query. It reads the
// log from its end in parts of increasing size, because the server lists events oldest first. The
// first part has max(2n, 1,000) sequences, each further one twice as many as the one before. The
// cost is the sequences of these parts, so a rare match reads more.
type newest struct {
	api   *client.Client
	ns    string
	query client.EventsQuery // Since and Until as a user writes them
	part  int                // the size of the first part; newestLeast
	lost  []sluice.Gap
}

// events returns at most n events, newest first; 0: all.
func (w *newest) events(ctx context.Context, n int) ([]sluice.Event, error) {
	if n < 0 {
		return nil, terminal.Usagef("--limit %d: write a number, or 0 for all", n)
	}
	first, err := w.first(ctx)
	if err != nil {
		return nil, err
	}
	last, err := w.last(ctx)
	if err != nil {
		return nil, err
	}
	found := []sluice.Event{}
	for part := uint64(max(2*n, cmp.Or(w.part, newestLeast))); last > first; part *= 2 {
		from := first
		if n > 0 && last-first > part {
			from = last - part
		}
		some, start, err := w.between(ctx, from, last)
		if err != nil {
			return nil, err
		}
		slices.Reverse(some)
		found = append(found, some...)
		if n > 0 && len(found) >= n {
			return found[:n], nil
		}
		if start > from {
			break // this is the beginning of the log
		}
		last = from
	}
	return found, nil
}

// first returns the sequence after which the range begins. Without an event after the position, the
// range is empty.
func (w *newest) first(ctx context.Context) (uint64, error) {
	if w.query.Since == "" || w.query.Since == "-1" {
		return 0, nil
	}
	return w.before(ctx, sluice.Ago(w.query.Since, time.Now()))
}

// last returns the last sequence of the range.
func (w *newest) last(ctx context.Context) (uint64, error) {
	text := sluice.Ago(w.query.Until, time.Now())
	if text == "" {
		return w.end(ctx)
	}
	until, err := sluice.ParseCursor(text)
	if err != nil {
		return 0, err
	}
	switch until.Kind {
	case sluice.CursorBeginning:
		return 0, nil
	case sluice.CursorNow:
		return w.end(ctx)
	case sluice.CursorSeq:
		end, err := w.end(ctx)
		return min(until.Seq, end), err
	case sluice.CursorEvent:
		ev, err := w.api.Event(ctx, w.ns, text)
		return ev.Seq, err
	case sluice.CursorTime:
	}
	after := sluice.Cursor{Kind: sluice.CursorTime, Time: until.Time.Add(1)}
	return w.before(ctx, after.String())
}

// before returns the sequence before the first event after a position, or the last sequence of the
// log if there is no such event.
func (w *newest) before(ctx context.Context, since string) (uint64, error) {
	ev, ok, err := terminal.FirstEvent(ctx, w.api, w.ns, client.EventsQuery{Pattern: w.query.Pattern, Since: since})
	if err != nil {
		return 0, err
	}
	if !ok {
		return w.end(ctx)
	}
	return ev.Seq - 1, nil
}

// end returns the last sequence of the log. It costs a connection of a feed, which is closed at
// once; no event is read.
func (w *newest) end(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for item, err := range w.api.Feed(ctx, w.ns, client.FeedQuery{Pattern: w.query.Pattern, Projection: sluice.ProjectionNone}) {
		switch {
		case err != nil:
			return 0, err
		case item.Away != nil:
			return 0, item.Away
		case item.Subscribed != nil:
			return *item.Subscribed, nil
		}
	}
	return 0, context.Cause(ctx)
}

// between returns the events after one sequence and up to another, oldest first, and the sequence
// after which it began, which is later if the log begins later. The error for a range before the
// oldest stored event moves the begin to that event: first has already refused a --since before it.
func (w *newest) between(ctx context.Context, from, to uint64) (all []sluice.Event, start uint64, err error) {
	q := w.query
	q.Since, q.Until, q.Limit = strconv.FormatUint(from, 10), strconv.FormatUint(to, 10), newestLeast
	// A log that has lost its first events would answer WindowExceeded to 0.
	if from == 0 {
		q.Since = "-1"
	}
	for {
		page, err := w.api.Events(ctx, w.ns, q)
		if oldest := oldestOf(err); oldest > from+1 && q.Cursor == "" {
			return w.between(ctx, oldest-1, max(to, oldest-1))
		}
		if err != nil {
			return nil, from, err
		}
		w.lost = append(w.lost, page.Unreadable...)
		all = append(all, page.Items...)
		if page.Next == "" || page.Next == q.Cursor {
			return all, from, nil
		}
		q.Cursor = page.Next
	}
}

// oldestOf returns the sequence of the oldest stored event from the error for a range that begins
// earlier; 0 for other errors.
func oldestOf(err error) uint64 {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != sluice.WindowExceeded {
		return 0
	}
	oldest, _ := e.Details["oldest_available_seq"].(float64) // 0 if it is not there
	return uint64(oldest)
}

// sinceLast returns the position for --last: the last n events that match come after it. It is "",
// for events from now on, if no event matches.
func sinceLast(ctx context.Context, api *client.Client, ns string, query client.EventsQuery, n int) (string, error) {
	w := newest{api: api, ns: ns, query: query}
	events, err := w.events(ctx, n)
	if err != nil || len(events) == 0 {
		return "", err
	}
	seq := events[len(events)-1].Seq - 1
	if seq == 0 {
		return "-1", nil
	}
	return strconv.FormatUint(seq, 10), nil
}
