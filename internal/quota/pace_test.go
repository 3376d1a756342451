package quota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
)

// Issue 13, attack 9: in no minute, wherever it begins, is a receiver sent more than it agreed to, and little less.
func TestPaces_GrantNoMoreInAnyMinute(t *testing.T) {
	t.Parallel()
	for _, perMinute := range []int{1, 2, 7, 49, 50, 99, 100, 1000, 60_000} {
		p, r := quota.NewPaces(), quota.Receiver{URL: "https://a.example/hook", PerMinute: perMinute}
		var at []time.Time
		for now, end := noon(), noon().Add(5*time.Minute); now.Before(end); {
			wait := p.Take(r, now)
			if wait == 0 {
				at = append(at, now)
				continue
			}
			now = now.Add(wait)
		}
		require.GreaterOrEqual(t, len(at), 5*perMinute*97/100, "%d a minute", perMinute)
		for first, last := 0, 0; last < len(at); last++ {
			for at[last].Sub(at[first]) >= time.Minute {
				first++
			}
			require.LessOrEqual(t, last-first+1, perMinute, "%d a minute", perMinute)
		}
	}
}

// Issue 13, attack 9: a rate is of a principal and a URL; what was not sent is given back.
func TestPaces_AreOfPrincipalAndURL(t *testing.T) {
	t.Parallel()
	p, now := quota.NewPaces(), noon()
	one := quota.Receiver{Principal: "user:eve", URL: "https://a.example/hook", PerMinute: 2}
	require.Zero(t, p.Take(one, now))
	require.Equal(t, 30*time.Second, p.Take(one, now).Round(time.Millisecond))
	require.Zero(t, p.Take(quota.Receiver{Principal: "user:ann", URL: one.URL, PerMinute: 2}, now))
	require.Zero(t, p.Take(quota.Receiver{Principal: one.Principal, URL: "https://b.example/hook", PerMinute: 2}, now))
	p.Return(one, now)
	require.Zero(t, p.Take(one, now))
	require.NotZero(t, p.Take(one, now))
}
