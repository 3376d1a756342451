package eventlog_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-51: a filter that matches rarely gets a place to go on from, not a request without an end.
func TestWindow_PageExaminesABoundedNumberOfEvents(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	const many = 11_000
	for first := 1; first <= many; first += 1000 {
		events := make([]sluice.Event, 1000)
		for i := range events {
			events[i] = sluice.Event{ID: strconv.Itoa(first + i), Path: "/a", Type: "t"}
		}
		_, err := store.Publish(t.Context(), ns, events)
		require.NoError(t, err)
	}
	sub := &sluice.Subscription{Namespace: ns, Pattern: "/**", From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}, ReplayWindow: sluice.Duration(time.Hour)}
	q := model.WindowQuery{Wanted: func(e *sluice.Event) bool { return e.Seq == many }}
	page, err := store.Window(t.Context(), sub, q)
	require.NoError(t, err)
	require.Empty(t, page.Events)
	require.True(t, page.More)
	require.GreaterOrEqual(t, page.Next, uint64(10_000))
	require.Less(t, page.Next, uint64(many))
	q.After = strconv.FormatUint(page.Next, 10)
	page, err = store.Window(t.Context(), sub, q)
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	require.Equal(t, uint64(many), page.Next)
	require.False(t, page.More)
}
