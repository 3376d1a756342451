package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// overviews has a subscription that fails and one that does not, on a server of two that share a NATS.
func overviews(t *testing.T) (servers [2]*running, hook *hooktest.Server, on func(*config.Config)) {
	t.Helper()
	nats := natstest.Listening(t)
	on = func(c *config.Config) { c.NATS.URL = nats.ClientURL() }
	hook = hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Path == "/bad" {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return hooktest.Answer{}
	})
	one := start(t, t.TempDir(), on)
	one.subscribe(t, "good", hook.URL+"/good")
	one.subscribe(t, "bad", hook.URL+"/bad")
	one.tells(t, "x")
	return [2]*running{one, start(t, t.TempDir(), on)}, hook, on
}

// What one server has counted, the other one knows, too, and after its end a third one.
func TestOverview_SumsUpAllReplicas(t *testing.T) {
	t.Parallel()
	servers, _, on := overviews(t)
	one, two := servers[0], servers[1]
	var o sluice.Overview
	defer func() {
		t.Logf("the last one: at %s, oldest %+v, backlog %+v, hour %+v, lanes %+v", o.At, o.Oldest, o.Backlog, o.LastHour, o.Lanes)
	}()
	whole := func(s *running, replicas int) func() bool {
		return func() bool {
			var err error
			o, err = s.api.Overview(t.Context(), "")
			require.NoError(t, err)
			return o.LastHour.Delivered >= 1 && o.LastHour.Failures[sluice.FailServer] >= 1 && o.Lanes.Parked == 1 && o.Oldest != nil &&
				len(o.Server.Replicas) == replicas && o.Backlog.Complete && o.Backlog.Events >= 1
		}
	}
	eventually(t, whole(one, 2), "the first")
	eventually(t, whole(two, 2), "the second")
	o, err := two.api.Overview(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, "bad", o.Oldest.Subscription)
	require.Positive(t, o.Oldest.AgeSeconds)
	require.Equal(t, 1, o.Subscriptions[sluice.HealthOK])
	require.Len(t, o.Minutes, 61)
	require.NotNil(t, o.LastHour.P99)
	require.NotEmpty(t, o.Ledger)
	require.NotZero(t, o.Server.Storage.LimitBytes+o.Server.Storage.UsedBytes)
	counts := func(s *running, id, step string) func() bool {
		return func() bool {
			found, err := s.api.Statistics(t.Context(), id, client.StatisticsQuery{Step: step})
			require.NoError(t, err)
			last := found.Points[len(found.Points)-1]
			if last.Delivered+last.Failed == 0 {
				last = found.Points[len(found.Points)-2]
			}
			return id == "good" && last.Delivered == 1 && last.P50 != nil || id == "bad" && last.Failures[sluice.FailServer] >= 1
		}
	}
	for _, step := range []string{"1m", "5m", "1h"} {
		eventually(t, counts(two, "good", step), step)
		eventually(t, counts(two, "bad", step), step)
	}
	one.stop(t)
	two.stop(t)
	three := start(t, t.TempDir(), on)
	eventually(t, counts(three, "bad", "5m"), "the statistics outlive the servers")
	page, err := three.api.Health(t.Context(), client.HealthQuery{Sparkline: true})
	require.NoError(t, err)
	for _, row := range page.Subscriptions {
		require.Len(t, row.Sparkline.Delivered, 48)
		require.Len(t, row.Sparkline.Failed, 48)
		require.Positive(t, row.Sparkline.Delivered[47]+row.Sparkline.Failed[47]+row.Sparkline.Delivered[46]+row.Sparkline.Failed[46])
	}
}

// A stranger's overview is empty, and has no fields of the server's.
func TestOverview_HidesOthersSubscriptions(t *testing.T) {
	t.Parallel()
	servers, hook, _ := overviews(t)
	one := servers[0]
	owner := one.grant(t, "user:owner", "scope:default", "subscribe")
	stranger := one.grant(t, "user:stranger", "scope:default", "read")
	for _, who := range []string{"user:owner", "user:stranger"} {
		one.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/"+who, `{"tier":"read"}`)
	}
	mine := one.made(t, owner.token, `{"pattern":"/a/**","endpoint":{"url":"`+hook.URL+`/good?secret"}}`)
	one.tells(t, "y")
	of := func(token string) (o sluice.Overview, text string) {
		res := one.must(t, http.StatusOK, "GET /v1/overview", "", as(token)...)
		require.NoError(t, json.Unmarshal([]byte(res.text), &o))
		return o, res.text
	}
	eventually(t, func() bool {
		o, _ := of(owner.token)
		return o.LastHour.Delivered == 1 && o.LastHour.Failed == 0 && o.Minutes[60].Delivered+o.Minutes[59].Delivered == 1
	}, "it sees its own")
	eventually(t, func() bool {
		o, _ := of(one.token)
		return o.LastHour.Delivered == 3 && o.LastHour.Failed > 0
	}, "root sees all")
	o, text := of(stranger.token)
	require.Empty(t, o.Subscriptions)
	require.Zero(t, o.LastHour.Delivered+o.LastHour.Failed)
	for _, hidden := range []string{"server", "ledger", "oldest_undelivered", `"bad"`, "secret"} {
		require.NotContains(t, text, hidden)
	}
	one.must(t, http.StatusNotFound, "GET /v1/subscriptions/"+mine+"/statistics", "", as(stranger.token)...)
	one.must(t, http.StatusOK, "GET /v1/subscriptions/"+mine+"/statistics?since=2h&step=1h", "", as(owner.token)...)
	one.must(t, http.StatusBadRequest, "GET /v1/subscriptions/"+mine+"/statistics?step=2m", "")
	one.must(t, http.StatusBadRequest, "GET /v1/overview?namespace=A", "")
}
