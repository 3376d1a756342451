package subscription_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// handler returns a request for the subscription of a module's handler.
func handler(t *testing.T, pattern sluice.Pattern) *subscription.Request {
	t.Helper()
	req := parse(t, `{"pattern":"`+string(pattern)+`","endpoint":{"url":"`+url+`"}}`)
	req.ID, req.Module = "m-h", "m"
	return req
}

// Another pattern begins at the first event that is not settled: it may be in the log, or in a lane that waits for a retry.
func TestPutHandler_PatternKeepsThePlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	put := func(pattern sluice.Pattern) (*sluice.Subscription, error) {
		return b.PutHandler(t.Context(), "m-h", handler(t, pattern), "root")
	}
	before, err := put("/a/**")
	require.NoError(t, err)
	_, err = b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: "1", Path: "/b", Type: "t"}, {ID: "2", Path: "/a/1", Type: "t"}, {ID: "3", Path: "/a", Type: "t"}})
	require.NoError(t, err)
	require.NoError(t, b.Suspend(t.Context(), "m-h", "its files have changed"))

	b.consumers.fail = []error{errors.New("no answer")}
	_, err = put("/a/*")
	require.ErrorContains(t, err, "no answer")
	stays, err := b.Get(t.Context(), "m-h")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Pattern("/a/**"), sluice.Suspended, before.From}, []any{stays.Pattern, stays.State, stays.From}, "nothing has changed")

	after, err := put("/a/*")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Pattern("/a/*"), sluice.Active, before.CreatedAt}, []any{after.Pattern, after.State, after.CreatedAt})
	require.Equal(t, sluice.StartAt{Kind: sluice.StartSeq, Seq: 2}, after.From)
	require.NoError(t, b.store.Deliveries.EnsureConsumers(t.Context(), after))
	require.False(t, b.hasConsumer(t, "m-h_root"), "the pattern has one filter")

	_, err = b.store.Deliveries.Park(t.Context(), after, sluice.Parked{Lane: "m-h.p.a.1", FromSeq: 2}, 0)
	require.NoError(t, err)
	source, err := b.store.Deliveries.OpenSource(t.Context(), after)
	require.NoError(t, err)
	require.NoError(t, (<-source.Deliveries()).Receipt.Ack())
	source.Close()
	require.Eventually(t, func() bool {
		status, err := b.store.Deliveries.Brief(t.Context(), after)
		return err == nil && status.Backlog == 0
	}, time.Minute, 10*time.Millisecond)
	again, err := put("/**")
	require.NoError(t, err)
	require.Equal(t, uint64(2), again.From.Seq, "the event is in a parked lane")
	require.True(t, again.Began().After(after.Began()))
}

// A subscription that has ended begins anew, and one that is not the module's stays as it is.
func TestPutHandler_EndedOneBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, err := b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root")
	require.NoError(t, err)
	_, err = b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: "1", Path: "/a", Type: "t"}})
	require.NoError(t, err)
	_, err = b.Cancel(t.Context(), before, func() error { return nil })
	require.NoError(t, err)
	after, err := b.PutHandler(t.Context(), "m-h", handler(t, "/b/**"), "root")
	require.NoError(t, err)
	require.True(t, after.CreatedAt.After(before.CreatedAt))
	require.Equal(t, uint64(2), after.From.Seq)
	other := handler(t, "/b/**")
	other.Module = "other"
	_, err = b.PutHandler(t.Context(), "m-h", other, "root")
	requireCode(t, sluice.SubscriptionDiffers, err)
}
