package health

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestOf_NamesTheWorstCondition(t *testing.T) {
	t.Parallel()
	since := time.Unix(1, 0)
	for _, tt := range []struct {
		name  string
		facts Facts
		want  sluice.Health
	}{
		{"nothing happened", Facts{}, sluice.HealthOK},
		{"some attempts failed, and their retries did not", Facts{Attempts: 10, Delivered: 1}, sluice.HealthOK},
		{"its breaker is open", Facts{Breaker: sluice.BreakerOpen, Held: 1, Parked: 1}, sluice.HealthFailing},
		{"its breaker probes", Facts{Breaker: sluice.BreakerHalfOpen}, sluice.HealthRetrying},
		{"its breaker is closed", Facts{Breaker: sluice.BreakerClosed, Attempts: 1, Delivered: 1}, sluice.HealthOK},
		{"its log cannot be read", Facts{Unreadable: true}, sluice.HealthFailing},
		{"every attempt fails", Facts{FailingSince: since}, sluice.HealthFailing},
		{"the last attempts failed", Facts{Attempts: 2}, sluice.HealthFailing},
		{"a lane is held, others retry", Facts{Parked: 3, Held: 1, Attempts: 9, Delivered: 8}, sluice.HealthHeld},
		{"a lane retries", Facts{Parked: 1, DeadLetters: 2, Lag: time.Hour}, sluice.HealthRetrying},
		{"an event waits for long", Facts{Lag: behindAfter, DeadLetters: 1}, sluice.HealthBehind},
		{"an event waits", Facts{Lag: behindAfter - 1}, sluice.HealthOK},
		{"it has dead letters", Facts{DeadLetters: 1}, sluice.HealthDeadLetters},
		{"it is paused, and holds a lane", Facts{State: sluice.Paused, Held: 1, Parked: 1}, sluice.HealthPaused},
		{"it is disabled", Facts{State: sluice.Disabled, FailingSince: since}, sluice.HealthDisabled},
		{"it is suspended", Facts{State: sluice.Suspended}, sluice.HealthSuspended},
		{"it is cancelled", Facts{State: sluice.Cancelled, DeadLetters: 3}, sluice.HealthCancelled},
	} {
		require.Equal(t, tt.want, Of(&tt.facts), tt.name)
	}
}

func TestRank_HasTheLongestTroubleFirst(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	want := []place{
		placeOf("z", sluice.HealthFailing, early, late),
		placeOf("a", sluice.HealthFailing, late, early.Add(time.Second)), // an event is older than the failure
		placeOf("b", sluice.HealthFailing, late, time.Time{}),
		placeOf("c", sluice.HealthFailing, time.Time{}, late),
		placeOf("d", sluice.HealthFailing, time.Time{}, time.Time{}),
		placeOf("a", sluice.HealthDisabled, early, time.Time{}),
		placeOf("a", sluice.HealthHeld, time.Time{}, late),
		placeOf("a", sluice.HealthRetrying, time.Time{}, early),
		placeOf("a", sluice.HealthPaused, time.Time{}, time.Time{}),
		placeOf("a", sluice.HealthOK, time.Time{}, time.Time{}),
		placeOf("b", sluice.HealthOK, time.Time{}, time.Time{}),
		placeOf("a", sluice.HealthCancelled, time.Time{}, time.Time{}),
	}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, worse)
	require.Equal(t, want, got)
	for _, p := range want {
		again, err := parseCursor(p.cursor())
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
	_, err := parseCursor("x")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}
