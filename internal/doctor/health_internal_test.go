package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestHealth_NamesTheFault(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]sluice.SubscriptionHealth{
		"ok":                                      {Health: sluice.HealthOK, Breaker: sluice.BreakerClosed, Backlog: 9},
		"paused":                                  {Health: sluice.HealthPaused},
		"failing (breaker open)":                  {Health: sluice.HealthFailing, Breaker: sluice.BreakerOpen},
		"failing (breaker half open)":             {Health: sluice.HealthFailing, Breaker: sluice.BreakerHalfOpen},
		"retrying (2 paths retry)":                {Health: sluice.HealthRetrying, Parked: 2},
		"held (one path is held)":                 {Health: sluice.HealthHeld, Parked: 1, Held: 1},
		"paused (one dead letter)":                {Health: sluice.HealthPaused, DeadLetters: 1},
		"failing (log unreadable)":                {Health: sluice.HealthFailing, SourceError: "no"},
		"behind (the oldest event waits for 90s)": {Health: sluice.HealthBehind, LagSeconds: 90.4},
		"failing (breaker open, one path retries, 2 paths are held, 16 dead letters)": {
			Health: sluice.HealthFailing, Breaker: sluice.BreakerOpen, Parked: 3, Held: 2, DeadLetters: 16,
		},
	} {
		require.Equal(t, want, health(&h))
	}
}

func TestDoctor_NamesTheWorstSubscriptions(t *testing.T) {
	t.Parallel()
	e := &examination{}
	e.noteHealth(&client.HealthPage{Counts: map[sluice.Health]int{sluice.HealthOK: 3, sluice.HealthPaused: 1}})
	page := client.HealthPage{Counts: map[sluice.Health]int{sluice.HealthOK: 3, sluice.HealthFailing: 4}}
	for _, id := range []string{"z", "a", "b"} {
		page.Subscriptions = append(page.Subscriptions, sluice.SubscriptionHealth{ID: id, Health: sluice.HealthFailing})
	}
	e.noteHealth(&page)
	require.Equal(t, "ok", e.findings[0].Result)
	require.Contains(t, e.findings[0].Detail, "none of 4")
	require.Equal(t, "warn", e.findings[1].Result)
	require.Contains(t, e.findings[1].Detail, "4 of 7: z (failing), a (failing), b (failing) and 1 more; see sluice status")
}
