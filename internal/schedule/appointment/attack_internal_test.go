package appointment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// An appointment that another principal made meanwhile is not changed by a caller without the right.
func TestPut_ForbiddenAppointmentIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Unix(1_700_000_000, 0).UTC())
	e := w.engine("one")
	w.set(t, e, nil)
	other := w.read("a")
	other.Action.Path = "/elsewhere"
	other.Revision = 0
	_, _, err := e.Set(t.Context(), other, func(was *sluice.Appointment) error {
		require.Equal(t, sluice.Path("/a"), was.Action.Path)
		return sluice.Errorf(sluice.NotFound, "it is not theirs")
	})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.Equal(t, sluice.Path("/a"), w.read("a").Action.Path)
}

// A time so long ago that no duration says how long: one that repeats goes on at its next time all the same.
func TestRepeat_CenturiesLateContinuesAtTheNextTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, every := range []time.Duration{time.Second, time.Hour, 7 * time.Hour, 200 * 365 * 24 * time.Hour} {
		a := &sluice.Appointment{At: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), Every: sluice.Duration(every)}
		at, ok := next(a, now)
		require.True(t, ok && at.After(now) && at.Sub(now) <= every, "%s: %s", every, at)
	}
}

// A principal that knows the ids of one firing does not know those of the next, and cannot take them first.
func TestFiringID_CannotBePredicted(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Unix(1_700_000_000, 0).UTC())
	w.set(t, w.engine("one"), func(a *sluice.Appointment) { a.Every = sluice.Duration(time.Hour) })
	waiting := w.read("a")
	w.keep(t, "one", w.now.Add(90*time.Minute))
	fired := w.read("a")
	require.Equal(t, event(&waiting).ID, fired.Last.EventID)
	require.NotEqual(t, event(&waiting).ID, event(&fired).ID)
	require.Len(t, event(&fired).ID, len("appointment-")+26)
	for _, id := range []string{event(&waiting).ID, event(&fired).ID} {
		require.NotContains(t, id, waiting.Work.Series)
	}
}

// While the log refuses to be told of it, one that has ended is tried less often each time; one that has yet to fire is not.
func TestTell_EndedOneIsPatient(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{true, false} {
		w := newWorld(time.Unix(1_700_000_000, 0).UTC())
		e := w.engine("one")
		w.set(t, e, func(a *sluice.Appointment) { a.Notice = sluice.Duration(time.Hour) })
		w.deaf = sluice.Errorf(sluice.QuotaExceeded, "the log is full")
		if cancelled {
			require.NoError(t, e.Cancel(t.Context(), w.read("a"), "user:bob"))
		}
		for begin := w.now; w.now.Sub(begin) < 10*time.Minute; {
			w.now = e.due.Fire(t.Context(), "acme/a").At
		}
		if !cancelled {
			require.Equal(t, 600, w.asked)
			continue
		}
		require.Less(t, w.asked, 20)
		w.deaf = nil
		require.Zero(t, e.due.Fire(t.Context(), "acme/a"))
		require.Equal(t, []string{sluice.TypeAppointmentCancelled}, w.told)
		require.Empty(t, w.records)
	}
}
