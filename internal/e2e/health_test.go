package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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
	require.NotContains(t, of.text, `"bad"`)
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

// The dead letters of a former subscription are not those of a later one with its id, in any namespace.
func TestHealth_HidesFormerDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if strings.Contains(string(r.Body), "refused") {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return hooktest.Answer{}
	})
	body := `{"pattern":"/a/**","endpoint":{"url":"` + hook.URL + `"},"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", body+"}")
	s.marked(t, "/a/1", "refused")
	s.marked(t, "/a/2", "x")
	of := func(letters uint64, health sluice.Health) {
		eventually(t, func() bool {
			o, err := s.api.Overview(t.Context(), "")
			require.NoError(t, err)
			all, _ := s.healthOf(t, client.HealthQuery{Health: []sluice.Health{health}})
			sum := uint64(0)
			for _, n := range o.DeadLetters.ByReason {
				sum += n
			}
			return o.DeadLetters.Total == letters && sum == letters && o.Subscriptions[health] == 1 && all["again"].Health == health
		}, fmt.Sprintf("dead letters: %d", letters))
	}
	of(1, sluice.HealthDeadLetters)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", "{}")
	for _, namespace := range []string{"default", "other"} {
		s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/again", "")
		s.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", body+`,"namespace":"`+namespace+`"}`)
		of(0, sluice.HealthOK)
	}
}

// sortedSame returns the IDs; those of a condition without a trouble are in the order of their IDs, of which one is generated.
func sortedSame(ids []string, generated string) []string {
	if n := len(ids); ids[n-2] == generated {
		ids[n-2], ids[n-1] = ids[n-1], ids[n-2]
	}
	return ids
}

// failing has two subscriptions that want the same events, of which one's endpoint is down until up is set.
func failing(t *testing.T) (s *running, up *atomic.Bool) {
	t.Helper()
	up = &atomic.Bool{}
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Path == "/bad" && !up.Load() {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return hooktest.Answer{}
	})
	s = start(t, t.TempDir(), nil)
	s.subscribe(t, "good", hook.URL+"/good")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions",
		`{"id":"bad","pattern":"/a/**","endpoint":{"url":"`+hook.URL+`/bad"},"policy":{"on_dead":"hold","retry":{"preset":"custom","steps":["1h"],"max_attempts":2}}}`)
	return s, up
}

// All lanes of a subscription are retried at once, however far their next attempts are.
func TestLanes_AreRetriedTogether(t *testing.T) {
	t.Parallel()
	s, up := failing(t)
	for i := range 5 {
		s.marked(t, fmt.Sprintf("/a/%d", i), "x")
	}
	parked := func(n int) func() bool {
		return func() bool {
			all, _ := s.healthOf(t, client.HealthQuery{})
			return all["bad"].Parked == n
		}
	}
	eventually(t, parked(5), "five lanes wait for an hour")
	up.Store(true)
	eventually(t, func() bool { // a lane that is just being parked stays
		rep, err := s.api.RetryLanes(t.Context(), "bad")
		return err == nil && rep.Kind == sluice.ReplayLanes && parked(0)()
	}, "all were delivered")
	_, err := s.api.PauseSubscription(t.Context(), "bad")
	require.NoError(t, err)
	for _, act := range []string{"retry", "probe"} {
		require.Contains(t, s.must(t, http.StatusConflict, "POST /v1/subscriptions/bad/"+act, "").text, "resume it first")
	}
}

// One question answers who got an event, what it was caused by, and what it caused.
func TestEvent_IsExplainedToAllSubscriptions(t *testing.T) {
	t.Parallel()
	s, up := failing(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"others","pattern":"/b/**","endpoint":{"url":"http://127.0.0.1:9/x"}}`)
	for _, ev := range []sluice.Event{link("cause", "t", "/c/1", ""), link("one", "t", "/a/1", "cause"), link("two", "t", "/c/2", "one"), link("three", "t", "/c/3", "two")} {
		require.NoError(t, publishOne(t.Context(), s.api, ev))
	}
	var story client.EventDeliveries
	told := func() (all map[string]client.EventDelivery) {
		var err error
		story, err = s.api.EventDeliveries(t.Context(), "default", "one", client.EventDeliveriesQuery{})
		require.NoError(t, err)
		all = map[string]client.EventDelivery{}
		for _, d := range story.Deliveries {
			all[d.Subscription] = d
		}
		return all
	}
	eventually(t, func() bool {
		all := told()
		return all["good"].State == "delivered" && all["bad"].State == "retrying"
	}, "one got it, one did not")
	require.Equal(t, "cause", story.Causes[0].ID)
	require.Len(t, story.Consequences, 2)
	require.True(t, story.Complete)
	all := told()
	require.Equal(t, "not_wanted", all["others"].State)
	require.Contains(t, all["bad"].Explanation, "status 503")
	require.Equal(t, "original", all["bad"].Runs[0].Kind)
	up.Store(true)
	rep, err := s.api.Replay(t.Context(), "good", client.ReplayRequest{From: "one", To: "one"})
	require.NoError(t, err)
	eventually(t, func() bool { return len(told()["good"].Runs) == 2 }, "the replay is a run of its own")
	runs := told()["good"].Runs
	require.Equal(t, []string{"original", "replay"}, []string{runs[0].Kind, runs[1].Kind})
	require.Equal(t, rep.ID, runs[1].Replay)

	reader := s.grant(t, "user:reader", "scope:default", "read")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:reader", `{"tier":"read"}`)
	of := s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/one/deliveries", "", as(reader.token)...)
	require.Contains(t, of.text, `"deliveries":[]`, "it manages no subscription")
	subscriber := s.grant(t, "user:reader", "scope:default", "subscribe")
	of = s.must(t, http.StatusOK, "GET /v1/namespaces/default/attempts?after=0", "", as(subscriber.token)...)
	require.Contains(t, of.text, `"attempts":[]`, "it manages no subscription")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/default/attempts?subscription=good", "", as(subscriber.token)...)
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/default/events/none/deliveries", "")
	page, err := s.api.EventDeliveries(t.Context(), "default", "one", client.EventDeliveriesQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "bad", page.Deliveries[0].Subscription)
	page, err = s.api.EventDeliveries(t.Context(), "default", "one", client.EventDeliveriesQuery{Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Equal(t, "good", page.Deliveries[0].Subscription)
}
