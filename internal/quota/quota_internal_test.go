package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBucket_OfIdleOrDeletedNamespaceIsRemoved(t *testing.T) {
	t.Parallel()
	q, now := NewQuotas(), time.Unix(0, 0)
	for i := range 100 {
		q.Set(sluice.Namespace{Name: fmt.Sprint("n", i), Quota: sluice.Quota{EventsPerSecond: 1, Burst: 10}})
		require.NoError(t, q.Take(fmt.Sprint("n", i), 1, 0, now))
	}
	require.NoError(t, q.Take("unknown", 1, 0, now))
	require.Len(t, q.buckets, 100)
	now = now.Add(sweepEvery)
	require.NoError(t, q.Take("n0", 10, 0, now))
	q.Remove("n1")
	require.Len(t, q.buckets, 99)
	q.Set(sluice.Namespace{Name: "n1", Quota: sluice.Quota{EventsPerSecond: 1, Burst: 10}})
	require.NoError(t, q.Take("n1", 1, 0, now))
	require.Len(t, q.buckets, 2, "n0, which has no tokens left, and n1")
}

// A namespace whose bytes are spent is not forgotten: it would begin anew.
func TestSweep_KeepsSpentBuckets(t *testing.T) {
	t.Parallel()
	q, now := NewQuotas(), time.Unix(0, 0).Add(sweepEvery)
	q.Set(sluice.Namespace{Name: "spent", Quota: sluice.Quota{BytesPerSecond: 10}})
	q.Set(sluice.Namespace{Name: "new", Quota: sluice.Quota{BytesPerSecond: 10}})
	require.NoError(t, q.Take("spent", 1, 10, now))
	q.swept = time.Time{}
	require.NoError(t, q.Take("new", 1, 10, now))
	require.Error(t, q.Take("spent", 1, 10, now))
}

// Nothing is left of subscriptions that are gone, and one that never was counts for nothing.
func TestCounts_ForgetDeletedSubscriptions(t *testing.T) {
	t.Parallel()
	c := NewCounts(Most{})
	for _, grant := range []string{"", "eve"} {
		for range 2 {
			c.Set(&sluice.Subscription{ID: "a", Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: grant}})
		}
		c.Set(&sluice.Subscription{ID: "b", Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: grant}})
		c.Remove("a")
		require.Equal(t, map[string]int{"acme": 1}, c.of)
		_, n, _ := c.madeFor(makerOf(&sluice.Subscription{Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: grant}}), "", &c.tally)
		require.Equal(t, len(grant)/3, n, "of a grant one is left")
		c.Remove("none")
		c.Remove("b")
		require.Empty(t, c.subs)
		require.Empty(t, c.of)
		require.Empty(t, c.by)
	}
}

// Issue 13, attack 9: a request that read the clock before the one that got the lock first makes no room.
func TestLimits_CountNoTimeTwice(t *testing.T) {
	t.Parallel()
	quotas := NewQuotas()
	quotas.Set(sluice.Namespace{Name: "acme", Quota: sluice.Quota{EventsPerSecond: 2, Burst: 4}})
	paces, rates, sends := NewPaces(), NewRates(), NewSends(0, 120)
	for name, granted := range map[string]func(now time.Time) bool{
		"quota":         func(now time.Time) bool { return quotas.Take("acme", 1, 0, now) == nil },
		"agreed rate":   func(now time.Time) bool { return paces.Take(Receiver{PerMinute: 120}, now) == 0 },
		"shared rate":   func(now time.Time) bool { return rates.Take(SharedRate{Rate: sluice.Rate{PerMinute: 120}}, now) == 0 },
		"sends by hand": func(now time.Time) bool { return sends.Pay("", "user:eve", now) == nil },
	} {
		now, most := time.Unix(0, 0), 0
		for granted(now) {
			most++
		}
		require.GreaterOrEqual(t, most, 2, name)
		now = now.Add(time.Hour) // all is free again
		require.True(t, granted(now), name)
		require.True(t, granted(now.Add(-time.Minute)), name)
		for range most - 2 {
			require.True(t, granted(now), name)
		}
		require.False(t, granted(now), name)
	}
}
