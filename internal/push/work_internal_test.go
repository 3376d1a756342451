package push

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestTheLogLeavesOutWhatAnAttemptDoesNotHave(t *testing.T) {
	t.Parallel()
	keys := func(a sluice.Attempt) map[string]string {
		all := map[string]string{}
		for _, attr := range attemptAttrs(&a) {
			all[attr.Key] = attr.Value.String()
		}
		return all
	}
	got := keys(sluice.Attempt{EventID: "e", Number: 1, Outcome: sluice.Delivered, Status: 204, Verdict: sluice.Verdict{Settled: true}})
	require.Equal(t, "204", got["status"])
	for _, absent := range []string{"again", "dead", "error"} {
		require.NotContains(t, got, absent)
	}
	again := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got = keys(sluice.Attempt{Error: "connection refused", Verdict: sluice.Verdict{Again: again}})
	require.Equal(t, again.String(), got["again"])
	require.Equal(t, "connection refused", got["error"])
	require.NotContains(t, got, "status")
	require.Equal(t, "exhausted", keys(sluice.Attempt{Verdict: sluice.Verdict{Dead: sluice.Exhausted}})["dead"])
}
