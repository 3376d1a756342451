package mirror

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-50: each failure doubles the wait, up to an hour. System events report the first one, and the success that
// follows; a suspended mirror has not recovered.
func TestEngine_FailuresDoubleTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, m := &told{}, active("m", "a")
		m.PollInterval = sluice.Duration(10 * time.Minute)
		e := New(Deps{Owns: owner{}, Teller: events}, Options{Jitter: func() float64 { return 0.5 }})
		e.change("m", m)
		j := e.mirrors["m"]
		ends := func(err error) time.Duration {
			e.queue.drop(j)
			_, at, _ := e.enter(j)
			e.leave(t.Context(), j, m, outcome{place: at, err: err})
			return time.Until(j.due)
		}
		failed := errors.New("no route to the source")
		for _, wait := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
			require.Equal(t, wait, ends(failed))
		}
		require.Equal(t, []string{sluice.TypeMirrorFailing}, events.kinds)
		require.Equal(t, sluice.SyncError, e.Gauges()[0].State)
		require.Equal(t, 10*time.Minute, ends(nil))
		require.Equal(t, []string{sluice.TypeMirrorFailing, sluice.TypeMirrorRecovered}, events.kinds)
		require.Equal(t, 10*time.Minute, ends(nil))
		require.Len(t, events.kinds, 2)
	})
}

// S3-09, S3-39: a mirror is syncing from the moment at which its turn begins.
func TestStatus_IsSyncingDuringASync(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	m := active("m", "a")
	e.change("m", m)
	seen := func() sluice.SyncState {
		st := sluice.MirrorStatus{State: sluice.SyncIdle}
		e.live("m", &Place{}, &st)
		require.Equal(t, []model.MirrorGauges{{Namespace: "a", Mirror: "m", State: st.State}}, e.Gauges())
		return st.State
	}
	require.Equal(t, sluice.SyncIdle, seen())
	_, at, _ := e.enter(e.mirrors["m"])
	require.Equal(t, sluice.SyncSyncing, seen())
	e.leave(t.Context(), e.mirrors["m"], m, outcome{place: at})
	require.Equal(t, sluice.SyncIdle, seen())
}

// The lag counts from the time at which the copy was complete; for bundles, from the export of the newest one. A failure
// does not hide it.
func TestStatus_LagIsSinceTheCopyWasComplete(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	now, set := made.Add(time.Minute), made
	pulled := &sluice.Mirror{Source: "low", CreatedAt: made}
	carried := &sluice.Mirror{Source: "https://low.example/v1/namespaces/low", CreatedAt: made}
	keyed := &sluice.Mirror{Source: carried.Source, CreatedAt: made, CredentialAt: &set}
	at := Place{Watermark: 5, SourceSeq: 9, CaughtUpAt: made.Add(50 * time.Second), HeardAt: made.Add(20 * time.Second)}
	for _, c := range []struct {
		m       *sluice.Mirror
		at      Place
		items   uint64
		seconds float64
	}{{pulled, at, 4, 10}, {keyed, at, 4, 10}, {carried, at, 4, 40}, {pulled, Place{}, 0, 60}, {carried, Place{CaughtUpAt: now}, 0, 60}, {pulled, Place{CaughtUpAt: now.Add(time.Second)}, 0, 0}} {
		items, seconds := c.at.lag(c.m, now)
		require.Equal(t, []any{c.items, c.seconds}, []any{items, seconds})
	}

	e := New(Deps{Owns: owner{}, Teller: &told{}}, Options{Now: func() time.Time { return now }})
	m := active("m", "a")
	e.change("m", m)
	at.Revision = 1
	for _, failed := range []error{nil, errors.New("no route to the source")} {
		e.enter(e.mirrors["m"])
		e.leave(t.Context(), e.mirrors["m"], m, outcome{place: at, err: failed})
		g := e.Gauges()[0]
		require.Equal(t, []any{true, uint64(4), 10.0}, []any{g.Known, g.LagItems, g.LagSeconds})
	}
}
