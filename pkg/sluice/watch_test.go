package sluice_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-42: what a watch may be.
func TestWatch_IsChecked(t *testing.T) {
	t.Parallel()
	valid := func() sluice.Watch {
		return sluice.Watch{
			ID: "hot", Namespace: "acme", Pattern: "/sensors/**", Trigger: sluice.TriggerEdge,
			Action: sluice.Action{Path: "/alarms/hot", Type: "alarm.raised"},
		}
	}
	w := valid()
	require.NoError(t, w.Validate())
	w.Cooldown, w.For = sluice.Duration(time.Millisecond), sluice.MaxWatchTime
	require.NoError(t, w.Validate())
	for _, tt := range []struct {
		name   string
		change func(*sluice.Watch)
		code   sluice.Code
	}{
		{"an id that is none", func(w *sluice.Watch) { w.ID = "a.b" }, sluice.InvalidRequest},
		{"no id", func(w *sluice.Watch) { w.ID = "" }, sluice.InvalidRequest},
		{"no pattern", func(w *sluice.Watch) { w.Pattern = "" }, sluice.InvalidRequest},
		{"a filter that is none", func(w *sluice.Watch) { w.Filter.Types = []string{"a*b"} }, sluice.InvalidRequest},
		{"another trigger", func(w *sluice.Watch) { w.Trigger = "often" }, sluice.InvalidRequest},
		{"no trigger", func(w *sluice.Watch) { w.Trigger = "" }, sluice.InvalidRequest},
		{"a cooldown in the past", func(w *sluice.Watch) { w.Cooldown = -1 }, sluice.InvalidRequest},
		{"a cooldown of a moment", func(w *sluice.Watch) { w.Cooldown = 1 }, sluice.InvalidRequest},
		{"a cooldown of less than 1ms", func(w *sluice.Watch) { w.Cooldown = sluice.Duration(time.Millisecond - 1) }, sluice.InvalidRequest},
		{"a cooldown of a year", func(w *sluice.Watch) { w.Cooldown = sluice.Duration(365 * 24 * time.Hour) }, sluice.InvalidRequest},
		{"a duration of a year", func(w *sluice.Watch) { w.For = sluice.Duration(365 * 24 * time.Hour) }, sluice.InvalidRequest},
		{"no action", func(w *sluice.Watch) { w.Action = sluice.Action{} }, sluice.InvalidRequest},
		{"an action in the server's name", func(w *sluice.Watch) { w.Action.Path = "/_sys/x" }, sluice.Forbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := valid()
			tt.change(&w)
			require.Equal(t, tt.code, sluice.CodeOf(w.Validate()))
		})
	}
}

func TestFilter_IsAChoiceAndACondition(t *testing.T) {
	t.Parallel()
	w := sluice.Watch{ID: "a", Filter: sluice.Filter{
		Types: []string{"t"}, Sources: []string{"s"}, Subjects: []string{"u"}, Labels: map[string][]string{"l": {"v"}}, CEL: "true",
	}}
	require.Equal(t, sluice.Filter{Types: []string{"t"}, Sources: []string{"s"}, Subjects: []string{"u"}}, w.Chooses())
	require.Equal(t, sluice.Filter{Labels: map[string][]string{"l": {"v"}}, CEL: "true"}, w.Condition())
	require.Equal(t, sluice.Path("/_sys/watches/a"), sluice.WatchPath("a"))
}
