package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// While one is tried, the others of its namespace wait as long as all have been refused, a minute at most.
func TestPause_OneIsTriedAtATime(t *testing.T) {
	t.Parallel()
	p, begin := pauses{by: map[string]*pause{}}, time.Unix(1_700_000_000, 0)
	enter := func(namespace string, at time.Duration) time.Duration { return p.enter(namespace, begin.Add(at)) }
	refused := func(at time.Duration) time.Duration { return p.refused("acme", begin.Add(at)) }
	require.Zero(t, enter("acme", 0))
	require.Zero(t, enter("acme", 0), "nothing is known yet")
	require.Equal(t, 2*time.Second, refused(0))
	require.Equal(t, time.Second, enter("acme", time.Second))
	require.Zero(t, enter("other", time.Second))
	require.Zero(t, enter("acme", 2*time.Second))
	require.Equal(t, 21*time.Second, enter("acme", 21*time.Second), "one is tried")
	require.Equal(t, 22*time.Second, refused(22*time.Second))
	require.Zero(t, enter("acme", 44*time.Second))
	require.Equal(t, time.Minute, refused(64*time.Second))
	require.Equal(t, 2*time.Second, refused(245*time.Second), "long after the last one")
	p.end("acme")
	require.Zero(t, enter("acme", 245*time.Second))
}

// What ends, and what a full store refuses, holds up nothing.
func TestEnd_OnlyItsOwnFailurePauses(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	e := New[*int]("task", nil, Deps{Now: func() time.Time { return now }}, Options{})
	calls, away := 0, errors.New("away")
	end := func(err error) error { return e.End("acme", func() error { calls++; return err }) }
	full := error(sluice.StorageTight.Problem())
	for _, err := range []error{nil, full, sluice.Errorf(sluice.Conflict, "changed"), away} {
		require.ErrorIs(t, end(err), err)
	}
	require.Equal(t, 4, calls)
	require.ErrorIs(t, end(nil), errPaused)
	require.Equal(t, 4, calls)
}
