package watch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// stored is a log that has these events.
type stored struct {
	Log

	events []sluice.Event
}

func (s stored) Ends(context.Context, string) (first, last uint64, err error) {
	return 1, uint64(len(s.events)), nil
}

func (s stored) Page(_ context.Context, _ string, _ sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
	return s.events[after:upTo], upTo, nil
}

// trialOf returns the trial of a watch of /a by a caller that may see no secret event, after the start of a log with these types.
func trialOf(t *testing.T, types ...string) sluice.WatchTrial {
	t.Helper()
	log := stored{events: []sluice.Event{{Seq: 1, Path: "/b"}}}
	for i, kind := range types {
		log.events = append(log.events, sluice.Event{Seq: uint64(i + 2), Path: "/a", Type: kind})
	}
	w := sluice.Watch{ID: "test", Namespace: "default", Pattern: "/a", Trigger: sluice.TriggerLevel}
	is, err := NewKeeper(KeeperDeps{Log: log}).Try(t.Context(), w, 1, func(ev *sluice.Event) bool { return ev.Type != "secret" })
	require.NoError(t, err)
	return is
}

// Events that the caller may not see are in no number of the answer.
func TestTry_CountsNoHiddenEvents(t *testing.T) {
	t.Parallel()
	require.Zero(t, trialOf(t, "secret", "secret").Events)
	is := trialOf(t, "open", "secret", "open")
	require.Equal(t, 2, is.Events)
	require.Equal(t, uint64(2), is.Readings)
	require.Equal(t, 2, is.Fires)
}

// Hidden events are work like all others: a trial ends after a number of them.
func TestTry_HiddenEventsBoundTheWork(t *testing.T) {
	t.Parallel()
	types := make([]string, trialEvents+1)
	for i := range types {
		types[i] = "secret"
	}
	is := trialOf(t, types...)
	require.Equal(t, uint64(trialEvents+1), is.Place)
	require.True(t, is.More)
	require.Zero(t, is.Events)
}
