package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	mostTries = 10              // of what fails for a reason that nobody knows
	tellLimit = 5 * time.Second // for telling of what was held back
)

// fire does what is stored as decided. The readings are looked for among events first.
func (r *runner) fire(ctx context.Context, events map[uint64]*sluice.Event) error {
	for len(r.firing) > 0 {
		f := &r.firing[0]
		if err := r.dispatch(ctx, f, events[f.Seq]); err != nil {
			return err
		}
		r.firing = r.firing[1:]
		r.dirty = true
	}
	r.firing = nil
	return nil
}

// dispatch has an action done, and tells of it. It tries until it is known what came of it, or ctx ends.
func (r *runner) dispatch(ctx context.Context, f *Firing, ev *sluice.Event) error {
	for wait := again; ; wait = min(2*wait, againMost) {
		outcome, err := r.try(ctx, f, ev)
		if err == nil && outcome != "" {
			err = r.fired(ctx, f, outcome)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		f.unsure = true
		f.tries++
		r.log(ctx, "a watch did not fire yet", slog.Uint64("seq", f.Seq), slog.Any("error", err))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// try publishes the event of an action, unless it is there. It returns what came of it, "" if it was not to be; an error says
// that it is to be tried again.
func (r *runner) try(ctx context.Context, f *Firing, ev *sluice.Event) (outcome string, err error) {
	w := r.watch
	if f.unsure {
		done, err := r.ports.Log.Has(ctx, w.Namespace, w.Action.Path, w.FiringID(f.Seq), f.Seq)
		if done || err != nil {
			return sluice.OutcomeOK, err
		}
	}
	if ev == nil {
		var why Reason
		if ev, why, err = r.reading(ctx, f.Seq); why != "" {
			r.state.Missed(Verdict{Seq: f.Seq, At: f.At}, why)
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
	err = r.ports.Perform.Perform(ctx, w.Creator, r.event(f, ev))
	switch code := sluice.CodeOf(err); {
	case ctx.Err() != nil, code == sluice.Unavailable, code == sluice.Internal && f.tries < mostTries:
		return "", err
	}
	return sluice.DispatchOutcome(err), nil
}

// reading returns a reading again, or why it is none any more.
func (r *runner) reading(ctx context.Context, seq uint64) (*sluice.Event, Reason, error) {
	ev, err := r.ports.Log.EventAt(ctx, r.watch.Namespace, seq)
	switch code := sluice.CodeOf(err); {
	case code == sluice.NotFound, code == sluice.WindowExceeded, code == sluice.InvalidRequest:
		return nil, Expired, nil
	case err != nil:
		return nil, "", err
	}
	shown, err := r.shows(ctx, &ev)
	if err == nil && !shown {
		return nil, Unfetched, nil
	}
	return &ev, "", err
}

// event returns the event of a firing, which came of a reading.
func (r *runner) event(f *Firing, of *sluice.Event) sluice.Event {
	w := r.watch
	ev := w.Action.Event(w.Namespace, w.FiringID(f.Seq))
	ev.Time = time.Now().UTC()
	if ev.Source == "" {
		ev.Source = "/watches/" + w.ID
	}
	if ev.Extensions == nil {
		ev.Extensions = map[string]string{}
	}
	ev.Extensions[sluice.CausationID] = of.ID
	ev.Extensions[sluice.CorrelationID] = of.ID
	if affair := of.Extensions[sluice.CorrelationID]; affair != "" {
		ev.Extensions[sluice.CorrelationID] = affair
	}
	return ev
}

// Firings and what was held back, as it is told.
type (
	firedData struct {
		Creator         sluice.Principal `json:"creator"`
		WatchID         string           `json:"watch_id"`
		FiredAtMs       int64            `json:"fired_at_ms"`
		DispatchOutcome string           `json:"dispatch_outcome"`
		Seq             uint64           `json:"seq"`      // of the reading
		EventID         string           `json:"event_id"` // of the action's event
	}
	missedData struct {
		Creator        sluice.Principal `json:"creator"`
		WatchID        string           `json:"watch_id"`
		SuppressedAtMs int64            `json:"suppressed_at_ms"` // of the first
		Reason         Reason           `json:"reason"`
		Count          uint64           `json:"count"`
		Seq            uint64           `json:"seq"` // of the first
	}
	throttledData struct {
		Creator sluice.Principal `json:"creator"`
		WatchID string           `json:"watch_id"`
		Dropped uint64           `json:"dropped"`
	}
)

// fired tells that the watch fired (S2-43), once, after what it tells of.
func (r *runner) fired(ctx context.Context, f *Firing, outcome string) error {
	w := r.watch
	ev, err := r.announcement(sluice.TypeWatchFired, "fired-"+w.FiringID(f.Seq), firedData{
		Creator: w.CreatedBy, WatchID: w.ID, FiredAtMs: time.Now().UnixMilli(), DispatchOutcome: outcome, Seq: f.Seq, EventID: w.FiringID(f.Seq),
	})
	if err != nil {
		return err
	}
	if f.unsure {
		told, err := r.ports.Log.Has(ctx, w.Namespace, ev.Path, ev.ID, f.Seq)
		if told || err != nil {
			return err
		}
	}
	err = r.ports.Log.Announce(ctx, ev)
	if code := sluice.CodeOf(err); code == sluice.Unavailable || code == sluice.Internal && f.tries < mostTries || ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.log(ctx, "it was not told that a watch fired", slog.Uint64("seq", f.Seq), slog.Any("error", err))
	}
	return nil
}

// tell tells what was held back (S2-44, S2-46). It may be lost.
func (r *runner) tell(ctx context.Context, v Verdict) {
	w := r.watch
	kind, name := sluice.TypeWatchThrottled, "throttled-"+w.FiringID(v.Seq)
	var data any = throttledData{Creator: w.CreatedBy, WatchID: w.ID, Dropped: v.Count}
	if v.Kind == Missed {
		kind, name = sluice.TypeWatchMissed, "missed-"+w.FiringID(v.Seq)+"-"+string(v.Reason)
		data = missedData{Creator: w.CreatedBy, WatchID: w.ID, SuppressedAtMs: v.At.UnixMilli(), Reason: v.Reason, Count: v.Count, Seq: v.Seq}
	}
	ev, err := r.announcement(kind, name, data)
	if err == nil {
		limit, cancel := context.WithTimeout(ctx, tellLimit)
		defer cancel()
		err = r.ports.Log.Announce(limit, ev)
	}
	if err != nil {
		r.log(ctx, "what a watch held back was not told", slog.String("kind", kind), slog.String("count", strconv.FormatUint(v.Count, 10)), slog.Any("error", err))
	}
}

func (r *runner) announcement(kind, id string, data any) (sluice.Event, error) {
	return announcement(r.watch, kind, id, data)
}

func announcement(w *sluice.Watch, kind, id string, data any) (sluice.Event, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return sluice.Event{}, fmt.Errorf("announce: %w", err)
	}
	return sluice.Event{
		Namespace: w.Namespace, Path: sluice.WatchPath(w.ID), ID: id, Type: kind, Source: sluice.SystemSource,
		Time: time.Now().UTC(), ContentType: "application/json", Data: text,
	}, nil
}
