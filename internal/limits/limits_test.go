package limits_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/limits"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func noon() time.Time { return time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC) }

// quotas returns the quotas of a server with one namespace, "acme".
func quotas(q sluice.Quota) *limits.Quotas {
	all := limits.NewQuotas()
	all.Set(sluice.Namespace{Name: "acme", Revision: 2, Quota: q})
	return all
}

func requireRefused(t *testing.T, err error, code sluice.Code, details map[string]any) {
	t.Helper()
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, e.Code)
	require.Equal(t, details, e.Details, e.Message)
}

func TestANamespacePublishesItsBurstAndThenItsRate(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 10, Burst: 30})
	now := noon()
	require.NoError(t, q.Take("acme", 25, 0, now))
	requireRefused(t, q.Take("acme", 6, 0, now), sluice.QuotaExceeded,
		map[string]any{"limit": 10.0, "unit": "events", "allowed": 5, "retry_after": 1})
	require.NoError(t, q.Take("acme", 5, 0, now), "what was refused was not paid for")
	requireRefused(t, q.Take("acme", 25, 0, now), sluice.QuotaExceeded,
		map[string]any{"limit": 10.0, "unit": "events", "allowed": 0, "retry_after": 3})
	require.NoError(t, q.Take("acme", 25, 0, now.Add(3*time.Second)), "the wait that was named was enough")
}

func TestABatchLargerThanTheBurstCanNeverPass(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 10, Burst: 30, BytesPerSecond: 1000})
	requireRefused(t, q.Take("acme", 31, 0, noon()), sluice.TooLarge, map[string]any{"limit": 30, "unit": "events"})
	requireRefused(t, q.Take("acme", 1, 1001, noon()), sluice.TooLarge, map[string]any{"limit": 1000, "unit": "bytes"})
}

func TestBytesAreCountedBesideEvents(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 2, Burst: 2, BytesPerSecond: 1000})
	now := noon()
	require.NoError(t, q.Take("acme", 1, 900, now))
	requireRefused(t, q.Take("acme", 1, 300, now), sluice.QuotaExceeded,
		map[string]any{"limit": 1000.0, "unit": "bytes", "allowed": 100, "retry_after": 1})
	require.NoError(t, q.Take("acme", 1, 100, now), "the events of what was refused were not paid for either")
}

func TestWithoutAQuotaNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, q := range []*limits.Quotas{quotas(sluice.Quota{}), quotas(sluice.Quota{EventsPerSecond: -1, BytesPerSecond: -1}), limits.NewQuotas()} {
		for range 100 {
			require.NoError(t, q.Take("acme", 1000, 1<<20, noon()))
		}
	}
}

func TestAQuotaThatIsChangedHoldsAtOnce(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 1, Burst: 1})
	now := noon()
	require.NoError(t, q.Take("acme", 1, 0, now))
	q.Set(sluice.Namespace{Name: "acme", Revision: 3, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 1}})
	require.Error(t, q.Take("acme", 1, 0, now), "it is the same quota")
	q.Set(sluice.Namespace{Name: "acme", Revision: 4, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 5}})
	q.Set(sluice.Namespace{Name: "acme", Revision: 3, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 1}})
	require.NoError(t, q.Take("acme", 5, 0, now), "news that come late change nothing")
	q.Remove("acme")
	require.NoError(t, q.Take("acme", 1000, 0, now))
}

func TestASubscriptionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	c := limits.NewCounts(2)
	c.Set("a", "acme")
	c.Set("x", "other")
	c.CaughtUp()
	require.NoError(t, c.Enter(t.Context(), "b", "acme"))
	requireRefused(t, c.Enter(t.Context(), "c", "acme"), sluice.QuotaExceeded, map[string]any{"limit": 2, "unit": "subscriptions", "allowed": 0})
	require.NoError(t, c.Enter(t.Context(), "a", "acme"), "it is there already")
	c.Leave("b")
	require.NoError(t, c.Enter(t.Context(), "c", "acme"), "b was not stored")
	c.Set("c", "acme")
	c.Leave("c")
	require.Error(t, c.Enter(t.Context(), "d", "acme"), "c was stored, whatever its creator believes")
	c.Remove("a")
	c.Remove("a")
	require.NoError(t, c.Enter(t.Context(), "d", "acme"))
}

func TestManyAtOnceAreNoMoreThanAllowed(t *testing.T) {
	t.Parallel()
	c := limits.NewCounts(10)
	c.CaughtUp()
	var let atomic.Int32
	var creators sync.WaitGroup
	for i := range 100 {
		creators.Go(func() {
			if c.Enter(t.Context(), strconv.Itoa(i), "acme") == nil {
				let.Add(1)
			}
		})
	}
	creators.Wait()
	require.Equal(t, int32(10), let.Load())
}

func TestNothingIsMadeBeforeItIsKnownWhatThereIs(t *testing.T) {
	t.Parallel()
	c := limits.NewCounts(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Enter(ctx, "a", "acme"), context.Canceled)
	refused := make(chan error, 1)
	go func() { refused <- c.Enter(t.Context(), "b", "acme") }()
	c.Set("a", "acme")
	c.CaughtUp()
	c.CaughtUp()
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(<-refused))
}
