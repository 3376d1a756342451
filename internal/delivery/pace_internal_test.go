package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// onePace admits one request a minute.
type onePace struct {
	next     time.Time
	returned int
}

// Take grants one request a minute.
func (p *onePace) Take(_ *sluice.Subscription, now time.Time) time.Duration {
	if now.Before(p.next) {
		return p.next.Sub(now)
	}
	p.next = now.Add(time.Minute)
	return 0
}

// Return takes Take back.
func (p *onePace) Return(*sluice.Subscription, time.Time) {
	p.next = time.Time{}
	p.returned++
}

// Issue 13, attack 9: an attempt is paid for once, at the pace that all runners of an endpoint share; one that was not made
// is given back.
func TestPace_IsPaidOncePerAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, p := idle(), &onePace{}
		r.pacer, r.sub.Agreed = p, &sluice.Agreement{RatePerMinute: 1}
		may, _ := r.admits(time.Now())
		require.Equal(t, breaker.All, may)
		may, _ = r.admits(time.Now())
		require.Equal(t, breaker.All, may, "that is paid for")
		r.throttle(task{lane: &lane{}}, time.Now()) // which sends nothing
		may, _ = r.admits(time.Now())
		require.Equal(t, breaker.All, may)
		r.throttle(task{lane: &lane{asks: true}}, time.Now())
		may, next := r.admits(time.Now())
		require.Equal(t, []any{breaker.None, time.Minute}, []any{may, time.Until(next)})

		require.NoError(t, r.applyDecision(t.Context(), model.Withhold))
		require.Equal(t, 1, p.returned)
		may, _ = r.admits(time.Now())
		require.Equal(t, breaker.All, may, "what was kept back is not paid for")
		r.throttle(task{lane: &lane{asks: true}}, time.Now())

		r.sub.Agreed = &sluice.Agreement{}
		r.throttled = time.Time{}
		may, _ = r.admits(time.Now())
		require.Equal(t, breaker.All, may, "without an agreed rate there is none")
	})
}

// Issue 13, attack 9: a change of something else does not fill the buckets of the rate anew; another rate does, and another
// endpoint is not waited for.
func TestConfigure_KeepsTheBuckets(t *testing.T) {
	t.Parallel()
	r := idle()
	sub := func(url string, perMinute float64) *sluice.Subscription {
		return &sluice.Subscription{ID: "s", Endpoint: sluice.Endpoint{URL: url}, Policy: sluice.Policy{Rate: sluice.Rate{PerMinute: perMinute}}}
	}
	r.sub = sub("https://a.example", 2)
	r.configure(r.sub, &filter.Matcher{})
	require.Len(t, r.limits, 1)
	now := time.Now()
	r.limits[0].AllowN(now, 1)
	changed := sub("https://a.example", 2)
	changed.Description = "another"
	r.configure(changed, &filter.Matcher{})
	require.Less(t, r.limits[0].TokensAt(now), 1.0)
	r.throttled = now.Add(time.Hour)
	r.configure(sub("https://b.example", 2), &filter.Matcher{})
	require.Zero(t, r.throttled)
	r.throttled = now.Add(time.Hour)
	r.configure(sub("https://b.example", 3), &filter.Matcher{})
	require.Zero(t, r.throttled)
	require.InDelta(t, 1, r.limits[0].TokensAt(now), 1e-9)
}
