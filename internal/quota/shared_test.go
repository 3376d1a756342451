package quota_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 18, item 10.
func TestRates_AreSharedByKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	of := func(principal sluice.Principal, ns, key string, perSecond, perMinute float64) quota.SharedRate {
		return quota.SharedRate{Principal: principal, Namespace: ns, Rate: sluice.Rate{PerSecond: perSecond, PerMinute: perMinute, Key: key}}
	}
	r := quota.NewRates()
	one := of("", "acme", "k", 10, 60)
	require.Zero(t, r.Take(one, now))
	require.Equal(t, time.Second, r.Take(one, now), "the slower limit decides")
	require.Equal(t, time.Second, r.Take(one, now), "a refusal counts for nothing")
	for _, other := range []quota.SharedRate{of("", "acme", "l", 10, 60), of("", "other", "k", 10, 60), of("user:ann", "acme", "k", 10, 60), of("", "acme", "k", 10, 0)} {
		require.Zero(t, r.Take(other, now), "%v", other)
	}
	r.Return(one, now)
	require.Zero(t, r.Take(one, now), "one was not sent")

	slow := of("", "acme", "slow", 1, 6)
	require.Zero(t, r.Take(slow, now))
	require.NotZero(t, r.Take(slow, now.Add(9900*time.Millisecond)))
	require.Zero(t, r.Take(slow, now.Add(10*time.Second)), "a refusal by one limit is not counted by the other")

	sent := 0
	fast := of("", "acme", "fast", 100, 0)
	for end := now.Add(10 * time.Second); now.Before(end); {
		if wait := r.Take(fast, now); wait > 0 {
			now = now.Add(wait)
			continue
		}
		sent++
	}
	require.InDelta(t, 1002, sent, 2, "100 a second, and two at first")

	for i := range 5000 {
		r.Take(of("", "acme", strconv.Itoa(i), 1000, 0), now.Add(time.Duration(i)*time.Second))
	}
	require.Less(t, r.Len(), 2000, "idle ones are forgotten")
}
