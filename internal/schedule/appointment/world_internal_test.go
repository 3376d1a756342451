package appointment

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// world is all that an engine works with, in memory. It dies at a write, before or after it is done.
type world struct {
	now      time.Time // zero: the real one
	records  map[string]string
	revision uint64
	log      map[string]time.Time
	stored   []string
	told     []string // kinds, each id once
	ids      map[string]bool
	refuse   error
	deaf     error                   // what telling says
	asked    int                     // how often something was to be told
	reports  chan sluice.Appointment // what is stored; nil: it is not reported

	left  int
	after bool
}

const window = time.Hour // of the log's memory for ids

var errDead = errors.New("dead")

func newWorld(now time.Time) *world {
	return &world{now: now, records: map[string]string{}, log: map[string]time.Time{}, ids: map[string]bool{}, left: -1}
}

// write does something unless the world dies before it.
func (w *world) write(do func() error) error {
	w.left--
	if w.left == 0 && !w.after {
		panic(errDead)
	}
	err := do()
	if w.left == 0 {
		panic(errDead)
	}
	return err
}

// record is how an appointment is stored.
type record struct {
	sluice.Appointment

	Work *sluice.AppointmentWork `json:"work"`
}

// read returns what is stored, as it is after it was stored.
func (w *world) read(id string) sluice.Appointment {
	var r record
	if text, ok := w.records[id]; ok {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			panic(err)
		}
	}
	r.Appointment.Work = r.Work
	return r.Appointment
}

func (w *world) Put(_ context.Context, a *sluice.Appointment) (revision uint64, err error) {
	err = w.write(func() error {
		if w.read(a.ID).Revision != a.Revision {
			return sluice.Errorf(sluice.Conflict, "changed")
		}
		w.revision++
		is := *a
		is.Revision = w.revision
		text, err := json.Marshal(record{is, is.Work})
		w.records[a.ID] = string(text)
		if w.reports != nil {
			w.reports <- w.read(a.ID)
		}
		return err
	})
	return w.revision, err
}

func (w *world) Get(_ context.Context, _, id string) (sluice.Appointment, error) {
	if _, ok := w.records[id]; ok {
		return w.read(id), nil
	}
	return sluice.Appointment{}, sluice.Errorf(sluice.NotFound, "none")
}

func (w *world) Delete(_ context.Context, a *sluice.Appointment) error {
	return w.write(func() error {
		if w.read(a.ID).Revision != a.Revision {
			return sluice.Errorf(sluice.Conflict, "changed")
		}
		delete(w.records, a.ID)
		return nil
	})
}

func (w *world) Of(context.Context, string) ([]sluice.Appointment, error) { return nil, nil }

func (w *world) Watch(context.Context, func(string, *sluice.Appointment)) error { return nil }

func (w *world) Window(context.Context, string) (time.Duration, error) { return window, nil }

func (w *world) StoredSince(_ context.Context, e *sluice.Event, since time.Time) (uint64, error) {
	if at, ok := w.log[e.ID]; ok && !at.Before(since) {
		return 1, nil
	}
	return 0, nil
}

func (w *world) Publish(_ context.Context, _ string, events []sluice.Event) (stored []sluice.Stored, err error) {
	id := events[0].ID
	err = w.write(func() error {
		if w.refuse != nil {
			return w.refuse
		}
		if at, ok := w.log[id]; !ok || w.now.Sub(at) > window {
			w.stored = append(w.stored, id)
			w.log[id] = w.now
		}
		return nil
	})
	return []sluice.Stored{{ID: id, Seq: 1}}, err
}

func (w *world) Check(*sluice.Event) error { return nil }

func (w *world) CheckNew(context.Context, string, string, []sluice.Event) error { return nil }

func (w *world) Take(string, int, int, time.Time) error { return nil }

func (w *world) Tell(_ context.Context, _ string, e model.SystemEvent) error {
	return w.write(func() error {
		text, err := json.Marshal(e.Data)
		if err != nil || e.Path != "/_sys/appointments/a" || !strings.Contains(string(text), `"creator":"root","appointment_id":"a"`) {
			panic(string(text))
		}
		if w.asked++; w.deaf != nil {
			return w.deaf
		}
		if !w.ids[e.ID] {
			w.told = append(w.told, e.Kind)
		}
		w.ids[e.ID] = true
		return nil
	})
}

func (w *world) Owns(string) bool { return true }

func (w *world) Append(context.Context, *sluice.LedgerEntry) error { return nil }

func (w *world) engine(replica string) *Engine {
	now := func() time.Time {
		if w.now.IsZero() {
			return time.Now()
		}
		return w.now
	}
	return New(Deps{Records: w, Lists: w, Deps: schedule.Deps{
		Perform: action.New(action.Deps{Log: w, Ingest: ingest.New(ingest.Deps{Publisher: w, Catalogue: w, Causes: w, Quota: w, Now: now}), Now: now}), Tell: w, Owner: w,
		Ledger: ledger.New(w, slog.New(slog.DiscardHandler)), Replica: replica, Now: now,
	}}, schedule.Options{Most: 1})
}

// life has a server do something until it dies or is through, and reports whether it is through.
func (w *world) life(do func()) (through bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != any(errDead) {
			panic(cause)
		}
	}()
	do()
	return true
}

// keep has a server keep the appointment until so long after its time, as its timers would.
func (w *world) keep(t *testing.T, replica string, until time.Time) {
	t.Helper()
	e := w.engine(replica)
	for range 20 {
		again := e.due.Fire(t.Context(), "acme/a").At
		if again.IsZero() || again.After(until) {
			w.now = until
			return
		}
		if again.After(w.now) {
			w.now = again
		}
	}
	t.Fatal("it does not come to rest")
}

func (w *world) set(t *testing.T, e *Engine, change func(*sluice.Appointment)) {
	t.Helper()
	a := sluice.Appointment{
		ID: "a", Namespace: "acme", At: w.now.Add(time.Hour), Notice: sluice.Duration(time.Minute), MissPolicy: sluice.MissCatchUpWithin, Grace: sluice.Duration(5 * time.Minute),
		Action: sluice.Action{Path: "/a", Type: "t", Data: []byte(`{"a": "<"}`)}, Creator: sluice.Creator{CreatedBy: sluice.Root, CreatedAt: w.now},
	}
	if change != nil {
		change(&a)
	}
	_, _, err := e.Set(t.Context(), a, func(*sluice.Appointment) error { return nil })
	require.NoError(t, err)
}
