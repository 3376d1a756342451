package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// healthOf returns the health of subscriptions by ID, and the IDs in order.
func (s *running) healthOf(t *testing.T, q client.HealthQuery) (all map[string]sluice.SubscriptionHealth, ids []string) {
	t.Helper()
	all = map[string]sluice.SubscriptionHealth{}
	for {
		page, err := s.api.Health(t.Context(), q)
		require.NoError(t, err)
		for _, h := range page.Subscriptions {
			all[h.ID] = h
			ids = append(ids, h.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, ids
		}
	}
}

// The worst subscription comes first, each caller sees its own, and another server knows the statistics of one that has ended.
func TestHealth_ShowsTheWorstFirst(t *testing.T) {
	t.Parallel()
	nats := natstest.Listening(t)
	on := func(c *config.Config) { c.NATS.URL = nats.ClientURL() }
	s := start(t, t.TempDir(), on)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Path == "/bad" {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return hooktest.Answer{}
	})
	s.subscribe(t, "good", hook.URL+"/good?secret")
	s.subscribe(t, "bad", hook.URL+"/bad")
	s.subscribe(t, "still", hook.URL+"/still")
	_, err := s.api.PauseSubscription(t.Context(), "still")
	require.NoError(t, err)
	owner := s.grant(t, "user:owner", "scope:default", "subscribe")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:owner", `{"tier":"read"}`)
	mine := s.made(t, owner.token, `{"pattern":"/b/**","endpoint":{"url":"`+hook.URL+`/mine"}}`)
	s.tells(t, "x")
	eventually(t, func() bool {
		all, ids := s.healthOf(t, client.HealthQuery{})
		return len(ids) == 4 && ids[0] == "bad" && all["bad"].Parked == 1 && all["good"].LastHour.Attempts == 1
	}, "the endpoint that fails comes first")

	all, ids := s.healthOf(t, client.HealthQuery{Limit: 1})
	require.Equal(t, []string{"bad", "still", "good", mine}, sortedSame(ids, mine))
	bad := all["bad"]
	require.Equal(t, sluice.HealthFailing, bad.Health)
	require.Zero(t, *bad.LastHour.SuccessPercent)
	require.Equal(t, http.StatusServiceUnavailable, bad.LastAttempt.Status)
	require.NotNil(t, bad.NextAttemptAt)
	require.Positive(t, bad.LagSeconds)
	require.Equal(t, sluice.HealthPaused, all["still"].Health)
	require.InDelta(t, 100, *all["good"].LastHour.SuccessPercent, 0)
	require.Equal(t, hook.URL+"/good?secret", all["good"].URL)
	_, ids = s.healthOf(t, client.HealthQuery{Health: []sluice.Health{sluice.HealthFailing, sluice.HealthPaused}})
	require.Equal(t, []string{"bad", "still"}, ids)
	of := s.must(t, http.StatusOK, "GET /v1/health/subscriptions", "", as(owner.token)...)
	require.Contains(t, of.text, mine)
	require.Contains(t, of.text, `"counts":{"ok":1}`)
	require.NotContains(t, of.text, "bad")
	s.must(t, http.StatusBadRequest, "GET /v1/health/subscriptions?health=gone", "")
	s.must(t, http.StatusBadRequest, "GET /v1/health/subscriptions?cursor=x", "")

	s.stop(t)
	next := start(t, t.TempDir(), on)
	eventually(t, func() bool {
		all, _ := next.healthOf(t, client.HealthQuery{})
		return all["good"].LastHour.Attempts >= 1 && all["bad"].LastHour.Attempts >= 1
	}, "the statistics outlive the server")
	all, _ = next.healthOf(t, client.HealthQuery{})
	require.InDelta(t, 100, *all["good"].LastHour.SuccessPercent, 0)
}

// sortedSame returns the IDs; those of a condition without a trouble are in the order of their IDs, of which one is generated.
func sortedSame(ids []string, generated string) []string {
	if n := len(ids); ids[n-2] == generated {
		ids[n-2], ids[n-1] = ids[n-1], ids[n-2]
	}
	return ids
}
