package mirror

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// onePlace stores the place of one mirror.
type onePlace struct {
	Copies

	at Place
}

func (p *onePlace) Purge(context.Context, string, uint64) error {
	p.at = Place{}
	return nil
}

func (p *onePlace) Hold(context.Context, string, []string) (Held, error) {
	return Held{Place: p.at}, nil
}

func (p *onePlace) Commit(_ context.Context, _ string, c Commit) (uint64, error) {
	if c.Place.Revision != p.at.Revision {
		return 0, sluice.Errorf(sluice.Conflict, "moved")
	}
	p.at = c.Place
	p.at.Revision++
	return p.at.Revision, nil
}

// dated has the times of the system events that were published.
type dated struct {
	began time.Time
	after []time.Duration
}

func (d *dated) Tell(_ context.Context, _ string, e model.SystemEvent) error {
	if e.Kind == sluice.TypeMirrorStale {
		d.after = append(d.after, time.Since(d.began))
	}
	return nil
}

// A mirror that gets bundles is stale when neither a bundle nor a heartbeat was exported for twice its interval. A system event
// reports that once, also over restarts, until the mirror hears of its source again.
func TestStale_IsReportedOncePerTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, events, m := &onePlace{}, &dated{began: time.Now()}, active("m", "a")
		m.Source, m.PollInterval, m.CreatedAt = "https://low.example/v1/namespaces/low", sluice.Duration(time.Hour), time.Now()
		serve := func(until time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), until)
			defer cancel()
			e := New(Deps{Owns: owner{}, Copies: store, Definitions: oneRecord{is: *m}, Teller: events}, Options{Jitter: func() float64 { return 0.5 }})
			e.change("m", m)
			e.serve(ctx)
			if len(events.after) > 0 { // a bundle is refused
				_, err := e.opened(t.Context(), &m.Mirror)
				require.NoError(t, err)
			}
		}
		serve(90 * time.Minute)
		require.Empty(t, events.after)
		require.Empty(t, store.at, "nothing is stored of a mirror that is not stale")
		serve(90 * time.Minute)
		require.Equal(t, []time.Duration{2 * time.Hour}, events.after)
		serve(5 * time.Hour)
		require.Len(t, events.after, 1)
		require.False(t, time.Now().Before(store.at.staleAt(&m.Mirror)))

		store.at.heard(bundle.Import{}, time.Now().Add(-time.Hour)) // it was on its way for an hour
		require.True(t, time.Now().Before(store.at.staleAt(&m.Mirror)))
		serve(50 * time.Minute)
		require.Len(t, events.after, 1)
		serve(5 * time.Hour)
		require.Equal(t, []time.Duration{2 * time.Hour, 9 * time.Hour}, events.after)
	})
}

// A mirror that is pulled is stale when no sync succeeds for twice its interval.
func TestStale_IsReportedOfFailedSyncs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store, events, m := &onePlace{}, &dated{began: now}, active("m", "a")
	m.PollInterval = sluice.Duration(time.Hour)
	store.at.Revision = 1
	e := New(Deps{Owns: owner{}, Copies: store, Teller: events}, Options{Now: func() time.Time { return now }})
	failed := outcome{err: errors.New("no route to the source")}
	for _, c := range []struct {
		since time.Duration
		is    outcome
		want  int
	}{{time.Hour, failed, 0}, {2 * time.Hour, outcome{}, 0}, {2 * time.Hour, failed, 1}, {2 * time.Hour, failed, 1}} {
		store.at.SyncedAt = now.Add(-c.since)
		require.Equal(t, c.is, e.heard(t.Context(), &m.Mirror, c.is))
		require.Len(t, events.after, c.want)
	}
	store.at.SyncedAt = now.Add(-3 * time.Hour)
	e.heard(t.Context(), &m.Mirror, failed)
	require.Len(t, events.after, 2, "it had succeeded in between")
}
