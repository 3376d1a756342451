package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestHealth_NamesTheFault(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		state sluice.State
		st    sluice.Status
	}{
		"ok":                     {sluice.Active, sluice.Status{Breaker: sluice.BreakerClosed, Backlog: 9, InFlight: 3}},
		"breaker open":           {sluice.Active, sluice.Status{Breaker: sluice.BreakerOpen}},
		"breaker half open":      {sluice.Active, sluice.Status{Breaker: sluice.BreakerHalfOpen}},
		"failing: 2 paths retry": {sluice.Active, sluice.Status{Parked: 2}},
		"held: 2 paths":          {sluice.Active, sluice.Status{Parked: 2, Held: 2}},
		"one dead letter":        {sluice.Paused, sluice.Status{DeadLetters: 1}},
		"disabled":               {sluice.Disabled, sluice.Status{}},
		"log unreadable":         {sluice.Active, sluice.Status{SourceError: "no"}},
		"breaker open, failing: 1 paths retry, held: 1 paths, 16 dead letters": {
			sluice.Active, sluice.Status{Breaker: sluice.BreakerOpen, Parked: 2, Held: 1, DeadLetters: 16},
		},
	} {
		require.Equal(t, want, health(c.state, c.st))
	}
	require.Equal(t, "ok", health(sluice.Paused, sluice.Status{}), "an operator chose that")
	require.Equal(t, "ok", health(sluice.Cancelled, sluice.Status{}))
}

func TestDoctor_WarnsOfIllSubscriptions(t *testing.T) {
	t.Parallel()
	view := func(id, health string) SubView { return SubView{sluice.Subscription{ID: id}, health} }
	for _, tt := range []struct {
		all            []SubView
		result, detail string
	}{
		{nil, "ok", "none of 0"},
		{[]SubView{view("a", "ok")}, "ok", "none of 1"},
		{[]SubView{view("b", "breaker open"), view("a", "held: 1 paths"), view("c", "ok")}, "warn", "2 of 3: a (held: 1 paths), b (breaker open); "},
		{[]SubView{view("a", "-"), view("c", "ok")}, "warn", "the health of 1 of 2 is unknown"},
	} {
		e := &examination{}
		e.noteHealth(tt.all)
		require.Equal(t, tt.result, e.findings[0].Result)
		require.Contains(t, e.findings[0].Detail, tt.detail)
	}
}
