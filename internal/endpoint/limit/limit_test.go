package limit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint/limit"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type creators struct{}

func (creators) Answers(c sluice.Caller, _ string, _ time.Time) sluice.Principal { return c.Principal }

// Issue 18, item 10: the agreed rate and the shared one hold together, and a refusal of either counts for neither.
func TestTake_CountsBothRatesOrNeither(t *testing.T) {
	t.Parallel()
	e := limit.Endpoints{Paces: quota.NewPaces(), Rates: quota.NewRates(), Access: creators{}}
	now := time.Now()
	of := func(url string) *sluice.Subscription {
		return &sluice.Subscription{
			Namespace: "acme", Lifecycle: sluice.Lifecycle{CreatedBy: "user:ann"}, Endpoint: sluice.Endpoint{URL: url}, Agreed: &sluice.Agreement{RatePerMinute: 60},
			Policy: sluice.Policy{Rate: sluice.Rate{PerMinute: 120, Key: "k"}}, // two at once
		}
	}
	one, other := of("https://a.example/"), of("https://b.example/")
	require.Zero(t, e.Take(one, now))
	require.NotZero(t, e.Take(one, now), "its endpoint agreed to one")
	require.Zero(t, e.Take(other, now), "what the agreed rate refused is not counted against the shared one")
	third := of("https://c.example/")
	third.Agreed = nil
	require.NotZero(t, e.Take(third, now), "the three share two")
	e.Return(other, now)
	require.Zero(t, e.Take(third, now))
	require.NoError(t, e.TakeNow(third, now), "a test is not held to the rate")
}
