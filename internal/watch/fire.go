package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	mostTries = 10              // attempts after internal errors, whose cause is unknown
	tellLimit = 5 * time.Second // timeout for announcing that a watch was cancelled
)

// fire executes the stored firings. It takes their readings from events if they are there,
// otherwise from the log. They are executed one after the other, in order: a firing that is retried
// delays the later ones.
func (r *runner) fire(ctx context.Context, events map[uint64]*sluice.Event) error {
	for len(r.firing) > 0 {
		f := &r.firing[0]
		if err := r.dispatch(ctx, f, events[f.Seq]); err != nil {
			return err
		}
		r.firing = r.firing[1:]
		r.dirty, r.fresh = true, true
	}
	r.firing = nil
	return nil
}

// dispatch performs an action and announces the firing. It retries until the outcome is known, or
// ctx ends.
func (r *runner) dispatch(ctx context.Context, f *Firing, ev *sluice.Event) error {
	return r.insist(ctx, &f.tried, f.Seq, func() (err error) {
		if f.id, err = eventID(r.ports.Log, r.watch, f.Seq); err != nil {
			return err
		}
		outcome, err := r.try(ctx, f, ev)
		if err != nil || outcome == "" {
			return err
		}
		if err := r.fired(ctx, f, outcome); err != nil {
			return err
		}
		r.state.Fired(f.Seq, outcome, time.Now())
		r.opts.Observe.Fired(r.watch, outcome)
		return nil
	})
}

// insist repeats a call until it succeeds, or ctx ends. There is no limit of tries: do decides when
// an error is final, and returns nil then.
func (r *runner) insist(ctx context.Context, t *tried, seq uint64, do func() error) error {
	for pause := (supervise.Pause{First: again, Most: againMost}); ; {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		t.unsure = true
		t.tries++
		r.log(ctx, "action of a watch not performed yet", slog.Uint64("seq", seq), slog.Any("error", err))
		if !pause.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

// nameOf returns the name of the firing for the reading with a sequence, which is part of the IDs of
// its event and of system events.
//
//	watch-hot-7-12
func nameOf(w *sluice.Watch, seq uint64) string {
	return fmt.Sprintf("watch-%s-%d-%d", w.ID, w.Revision, seq)
}

// eventID returns the ID of the event of a firing. It is the same for each attempt and on each
// replica. Other publishers cannot compute it, and so cannot take it before. Code Unavailable.
//
//	watch-hot-7-12-9f86d081884c7d659a2feaa0c55ad015
func eventID(log Log, w *sluice.Watch, seq uint64) (string, error) {
	name := nameOf(w, seq)
	secret, err := log.Secret(w.Namespace + " " + name)
	if err != nil {
		return "", err
	}
	return name + "-" + secret[:32], nil
}

// is reports whether an event of the log is that of the firing, and takes its ID then: an earlier
// build used the name of the firing.
func (f *Firing) is(w *sluice.Watch, ev *sluice.Event) bool {
	if ev.ID != f.id && ev.ID != nameOf(w, f.Seq) || ev.Extensions[sluice.AuthID] != string(w.CreatedBy) {
		return false
	}
	f.id = ev.ID
	return true
}

// errNotOurs says that another replica runs the watch.
var errNotOurs = sluice.Errorf(sluice.Unavailable, "another replica runs the watch")

// try publishes the event of an action, unless the log has it. It returns the outcome, or "" if the
// action must not be performed. An error means that the caller retries. It registers the action as
// in flight before it checks rights. So if a right is lost meanwhile, either the gate knows it, or
// Withdraw cancels the action. A final error of the performer is an outcome. Code Unavailable is
// not final, nor is Internal in the first mostTries tries.
func (r *runner) try(ctx context.Context, f *Firing, ev *sluice.Event) (outcome string, err error) {
	w := r.watch
	ctx, leave := r.under.Enter(ctx, w)
	defer leave()
	if f.unsure {
		done, err := r.ports.Log.Has(ctx, w.Namespace, w.Action.Path, f.Seq, func(ev *sluice.Event) bool { return f.is(w, ev) })
		if done || err != nil {
			return sluice.OutcomeOK, err
		}
	}
	ev, why, err := r.reading(ctx, f.Seq, ev)
	switch {
	case why != "":
		r.state.Missed(Verdict{Seq: f.Seq, At: f.At}, why)
		return "", nil
	case err != nil:
		return "", err
	}
	if !r.ports.Owns.Owns(r.key) { // checked here too: a machine that was suspended would otherwise fire until the engine learns that it lost the lease
		return "", errNotOurs
	}
	err = r.ports.Perform.Perform(ctx, w.Creator, r.event(f, ev))
	switch code := sluice.CodeOf(err); {
	case err != nil && ctx.Err() != nil, code == sluice.Unavailable, code == sluice.Internal && f.tries < mostTries:
		return "", err
	case err != nil:
		r.log(ctx, "action of a watch not published", slog.Uint64("seq", f.Seq), slog.Any("error", err))
	}
	return model.DispatchOutcome(err), nil
}

// reading returns the reading with a sequence: hand, or if that is nil, the event from the log. If
// it is not available any more, it returns the reason.
func (r *runner) reading(ctx context.Context, seq uint64, hand *sluice.Event) (*sluice.Event, Reason, error) {
	if hand == nil {
		ev, err := r.ports.Log.EventAt(ctx, r.watch.Namespace, seq)
		switch code := sluice.CodeOf(err); {
		case code == sluice.NotFound, code == sluice.WindowExceeded, code == sluice.InvalidRequest:
			return nil, Expired, nil
		case err != nil:
			return nil, "", err
		}
		hand = &ev
	}
	shown, err := r.shows(ctx, hand)
	if err == nil && !shown {
		return nil, Unfetched, nil
	}
	return hand, "", err
}

// event returns the event of a firing for a reading. The event has the correlation id of the
// reading, or the reading's id if there is none.
func (r *runner) event(f *Firing, of *sluice.Event) sluice.Event {
	w := r.watch
	ev := w.Action.Event(w.Namespace, f.id)
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

// Data of announcements: firings, suppressed firings and throttled readings.
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

// fired announces a firing (S2-43), once, after the action's event was published.
func (r *runner) fired(ctx context.Context, f *Firing, outcome string) error {
	w := r.watch
	ev, err := announcement(w, sluice.TypeWatchFired, "fired-"+nameOf(w, f.Seq), firedData{
		Creator: w.CreatedBy, WatchID: w.ID, FiredAtMs: time.Now().UnixMilli(), DispatchOutcome: outcome, Seq: f.Seq, EventID: f.id,
	})
	if err != nil {
		return err
	}
	return r.announce(ctx, ev, f.Seq, f.tried)
}

// heldBack returns the announcement of suppressed firings or throttled readings (S2-44, S2-46). Its
// id depends only on the first reading that it counts, and on the reason.
func heldBack(w *sluice.Watch, v Verdict, now time.Time) (Said, error) {
	said := Said{ID: "throttled-" + nameOf(w, v.Seq), Kind: sluice.TypeWatchThrottled, At: now.UTC(), Seq: v.Seq}
	var data any = throttledData{Creator: w.CreatedBy, WatchID: w.ID, Dropped: v.Count}
	if v.Kind == Missed {
		said.Kind, said.ID = sluice.TypeWatchMissed, "missed-"+nameOf(w, v.Seq)+"-"+string(v.Reason)
		data = missedData{Creator: w.CreatedBy, WatchID: w.ID, SuppressedAtMs: v.At.UnixMilli(), Reason: v.Reason, Count: v.Count, Seq: v.Seq}
	}
	var err error
	if said.Data, err = json.Marshal(data); err != nil {
		err = fmt.Errorf("announce: %w", err)
	}
	return said, err
}

// tell publishes the stored announcements, each of them once.
func (r *runner) tell(ctx context.Context) error {
	for len(r.untold) > 0 {
		said := &r.untold[0]
		ev := systemEvent(r.watch, said.Kind, said.ID, said.Data)
		ev.Time = said.At
		if err := r.insist(ctx, &said.tried, said.Seq, func() error { return r.announce(ctx, ev, said.Seq, said.tried) }); err != nil {
			return err
		}
		r.untold = r.untold[1:]
		r.dirty = true
	}
	r.untold = nil
	return nil
}

// announce publishes an announcement, unless an earlier attempt has stored it behind the sequence
// after. An error means that the caller retries. If publishing is permanently refused, it logs that
// and returns nil. Later firings wait for it.
func (r *runner) announce(ctx context.Context, ev sluice.Event, after uint64, t tried) error {
	err := announce(ctx, r.ports.Log, ev, after, t)
	if code := sluice.CodeOf(err); code == sluice.Unavailable || code == sluice.Internal && t.tries < mostTries || ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.log(ctx, "system event of a watch not published", slog.String("kind", ev.Type), slog.String("id", ev.ID), slog.Any("error", err))
	}
	return nil
}

// announce stores a system event. If an earlier attempt may have stored it, it first searches the
// log behind the sequence after.
func announce(ctx context.Context, log Log, ev sluice.Event, after uint64, t tried) error {
	if t.unsure {
		told, err := log.Has(ctx, ev.Namespace, ev.Path, after, func(is *sluice.Event) bool { return is.ID == ev.ID })
		if told || err != nil {
			return err
		}
	}
	return log.Announce(ctx, ev)
}

func announcement(w *sluice.Watch, kind, id string, data any) (sluice.Event, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return sluice.Event{}, fmt.Errorf("announce: %w", err)
	}
	return systemEvent(w, kind, id, text), nil
}

func systemEvent(w *sluice.Watch, kind, id string, data json.RawMessage) sluice.Event {
	return sluice.Event{
		Namespace: w.Namespace, Path: sluice.WatchPath(w.ID), ID: id, Type: kind, Source: sluice.SystemSource,
		Time: time.Now().UTC(), ContentType: "application/json", Data: data,
	}
}
