package subscription_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// planned is a request of a trial and its result.
type planned struct {
	body string
	id   string
	want any // created, or the code of the error
}

func to(path, more string) string {
	return `{"pattern":"` + path + `","endpoint":{"url":"` + url + `"}` + more + `}`
}

// try requires the results of a trial of requests of root.
func try(t *testing.T, r *subscription.Registry, requests []planned) {
	t.Helper()
	trial := r.NewTrial()
	for i, p := range requests {
		plan, err := trial.Check(t.Context(), parse(t, p.body), "root")
		var made bool
		id := ""
		if err == nil {
			id = plan.ID()
			made, err = trial.Add(t.Context(), plan)
		}
		if code, refused := p.want.(sluice.Code); refused {
			require.Equal(t, code, sluice.CodeOf(err), "%d: %v", i, err)
			continue
		}
		require.NoError(t, err, "%d", i)
		require.Equal(t, p.want, made, "%d", i)
		require.Equal(t, p.id, id, "%d", i)
	}
}

// A trial says of each request what Create would, and stores nothing; neither does it ask an endpoint.
func TestTrial_AgreesWithCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	counts := b.bound(7)
	there := b.create(t, to("/there", ""))
	keyed := b.create(t, to("/keyed", `,"idempotency_key":"k"`))
	for _, more := range []string{`,"id":"named"`, `,"id":"awake","mode":"wake"`} {
		b.create(t, to("/named", more))
	}
	records := b.records(t, "reservations") + b.records(t, "subscriptions")
	trial := []planned{
		{to("/there", ""), there.ID, false},
		{to("/keyed", `,"idempotency_key":"k"`), keyed.ID, false},
		{to("/other", `,"idempotency_key":"k"`), "", sluice.Conflict},
		{to("/named", `,"id":"named"`), "named", false},
		{to("/other", `,"id":"named"`), "", sluice.SubscriptionDiffers},
		{to("/named", `,"id":"awake","mode":"wake"`), "awake", false},
		{to("/other", `,"id":"awake","mode":"wake"`), "", sluice.SubscriptionDiffers},
		{to("/other", `,"id":"a/b"`), "", sluice.InvalidRequest},
		{to("/other", `,"namespace":"none"`), "", sluice.NotFound},
		{`{"pattern":"/other","endpoint":{"url":"https://10.0.0.1/"}}`, "", sluice.BlockedAddress},
		{`{"pattern":"/agreed","endpoint":{"url":"` + url + `","handshake":true}}`, "", true},
		{to("/new", ""), "", true},
		{to("/new", `,"description":"again"`), "", false},
		{to("/new", `,"id":"new","endpoint":{"url":"`+url+`/2"}`), "new", true},
		{to("/new", `,"id":"new"`), "", sluice.SubscriptionDiffers},
		{to("/more", ""), "", sluice.QuotaExceeded},
	}
	try(t, b.Registry, trial)
	try(t, b.Registry, trial) // the first one left nothing
	require.Equal(t, records, b.records(t, "reservations")+b.records(t, "subscriptions"))
	for _, id := range []string{"e", "f", "g"} {
		require.NoError(t, counts.Enter(t.Context(), &sluice.Subscription{ID: id, Namespace: "default"}), "nothing was kept from others")
	}
}

func TestTrial_RefusesKeysWithTwoConfigurations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	try(t, b.Registry, []planned{
		{to("/a", `,"idempotency_key":"k"`), "", true},
		{to("/a", `,"idempotency_key":"k"`), "", false},
		{to("/b", `,"idempotency_key":"k"`), "", sluice.Conflict},
		{to("/a", ``), "", false},
		{to("/b", `,"idempotency_key":"l"`), "", true},
	})
}

// waiting are counts that are not known yet.
type waiting struct{ *quota.Counts }

func (waiting) Trial() func(context.Context, *sluice.Subscription) error {
	return func(context.Context, *sluice.Subscription) error {
		return sluice.Errorf(sluice.Unavailable, "not loaded")
	}
}

func TestTrial_FailsWithoutCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.needs.Quota = waiting{quota.NewCounts(quota.Most{})}
	try(t, subscription.New(b.needs), []planned{{to("/a", ""), "", sluice.Unavailable}})
}
