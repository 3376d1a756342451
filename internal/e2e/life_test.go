package e2e_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-05…10, S0-53, S0-67…70, S0-73…75, S0-78, S0-86, S4-41…48, C08, C39: a subscription is made,
// shown, listed, changed and deleted.
func TestSubscription_LivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	made := s.must(t, http.StatusCreated, "POST /v1/subscriptions", wish(hook.URL, `"description":"d"`, `"filter":{"types":["t.*"]}`))
	id, ok := made.field(t, "id").(string)
	require.True(t, ok)
	for field, want := range map[string]any{
		"namespace": "default", "mode": "push", "pattern": "/**", "endpoint.url": hook.URL, "enabled": true, "state": "active",
		"description": "d", "start": "new", "replay_window": "1h0m0s", "replay_window_s": 3600.0, "idempotency_key": nil, "created_by": "root",
		"last_event_at": nil, "policy.retry.preset": "standard", "policy.timeout": "15s", "policy.window": 64.0, "policy.ordering": "path",
		"policy.envelope": "cloudevents", "policy.signature.scheme": "standard", "policy.on_gone": "cancel", "policy.disable_after": "120h0m0s",
	} {
		require.Equal(t, want, made.field(t, field), field)
	}
	created, err := time.Parse(time.RFC3339, fmt.Sprint(made.field(t, "created_at")))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), created, patience)
	require.NotEmpty(t, made.field(t, "secret"))

	shown := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "")
	require.Nil(t, shown.field(t, "secret"))
	list, err := s.api.Subscriptions(t.Context(), client.SubscriptionsQuery{Namespace: "default"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	s.must(t, http.StatusPreconditionFailed, "PATCH /v1/subscriptions/"+id, `{"description":"e"}`, "If-Match", `"999999"`)
	patched := s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"description":"e","filter":{"types":null}}`, "If-Match", shown.header.Get("ETag"))
	require.Equal(t, "e", patched.field(t, "description"))
	require.Nil(t, patched.field(t, "filter"), "an empty one is left out")
	s.must(t, http.StatusBadRequest, "PATCH /v1/subscriptions/"+id, `{"pattern":"/other"}`)

	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/"+id, "")
	for _, line := range []string{"GET /v1/subscriptions/" + id, "DELETE /v1/subscriptions/" + id, "POST /v1/subscriptions/" + id + "/test", "GET /v1/subscriptions/" + id + "/status"} {
		require.Equal(t, "subscription_not_found", s.must(t, http.StatusNotFound, line, "").field(t, "error.code"), line)
	}
	_, err = dial(t, s.at.NATS).Consumer(t.Context(), jsNames(t).EventsStream("default"), id)
	require.Error(t, err)
}

// S0-76: a subscription says when it was last sent an event, and may be patched with what was read.
func TestSubscription_HasItsLastDeliveryTime(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/dated", wish(hook.URL))
	_, err := s.api.Publish(t.Context(), "default", sluice.Event{ID: "only", Path: "/a", Type: "t", Data: []byte(`1`)})
	require.NoError(t, err)
	hook.Wait(1)
	var shown sluice.Subscription
	require.Eventually(t, func() bool {
		shown, err = s.api.Subscription(t.Context(), "dated")
		return err == nil && shown.LastEventAt != nil
	}, patience, time.Millisecond)
	read := time.Now()
	sent, err := s.api.Delivery(t.Context(), "dated", "only")
	require.NoError(t, err)
	require.Len(t, sent.Attempts, 1)
	require.False(t, shown.LastEventAt.Before(sent.Attempts[0].StartedAt), "%s: not before its attempt began", shown.LastEventAt)
	require.False(t, shown.LastEventAt.After(read), "%s: not after it was read", shown.LastEventAt)
	list, err := s.api.Subscriptions(t.Context(), client.SubscriptionsQuery{})
	require.NoError(t, err)
	require.Equal(t, shown.LastEventAt, list.Items[0].LastEventAt)
	shown.Description = "patched"
	_, err = s.api.PatchSubscription(t.Context(), "dated", shown, shown.Revision)
	require.NoError(t, err)
}

// S0-17, S0-26…28, C09: the same wish twice is one subscription.
func TestSubscription_RepeatedCreationIsTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	s0 := func(more string) string {
		return fmt.Sprintf(`{"target":"scope:default","on_change":"webhook","webhook_url":%q%s}`, hook.URL, more)
	}
	for _, body := range []string{wish(hook.URL), s0(``), s0(`,"event_filter":["x"],"idempotency_key":"k"`)} {
		first := s.must(t, http.StatusCreated, "POST /v1/subscriptions", body)
		again := s.must(t, http.StatusOK, "POST /v1/subscriptions", body)
		require.Equal(t, first.field(t, "id"), again.field(t, "id"))
		require.NotEmpty(t, first.field(t, "secret"))
		require.Nil(t, again.field(t, "secret"))
	}
	other := s.must(t, http.StatusConflict, "POST /v1/subscriptions", s0(`,"event_filter":["y"],"idempotency_key":"k"`))
	require.Equal(t, "conflict", other.field(t, "error.code"))

	mine := wish(hook.URL, `"filter":{"types":["mine"]}`)
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/mine", mine)
	s.must(t, http.StatusOK, "PUT /v1/subscriptions/mine", mine)
	differs := s.must(t, http.StatusConflict, "PUT /v1/subscriptions/mine", wish(hook.URL, `"filter":{"types":["other"]}`))
	require.Equal(t, "subscription_conflict", differs.field(t, "error.code"))
	put(t, s.api, "/a", 1, 1)
	require.Len(t, hook.Wait(2), 2, "the two that take every event")
}

// S4-45: what is paused, by its own word or by enabled, gets nothing and loses nothing.
func TestPause_LosesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"pausing"`))
	for i, act := range []struct {
		off, on func() (sluice.Subscription, error)
	}{
		{
			func() (sluice.Subscription, error) { return s.api.PauseSubscription(t.Context(), sub.ID) },
			func() (sluice.Subscription, error) { return s.api.ResumeSubscription(t.Context(), sub.ID) },
		},
		{
			func() (sluice.Subscription, error) {
				return s.api.PatchSubscription(t.Context(), sub.ID, map[string]bool{"enabled": false}, 0)
			},
			func() (sluice.Subscription, error) {
				return s.api.PatchSubscription(t.Context(), sub.ID, map[string]bool{"enabled": true}, 0)
			},
		},
	} {
		s.served(t, sub.ID, []string{sub.ID})
		off, err := act.off()
		require.NoError(t, err)
		require.Equal(t, sluice.Paused, off.State)
		s.served(t, sub.ID, nil)
		put(t, s.api, "/a", 3*i+1, 3*i+3)
		statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Backlog == 3 && st.State == sluice.Paused })
		require.Len(t, hook.Requests(), 3*i)
		on, err := act.on()
		require.NoError(t, err)
		require.Equal(t, sluice.Active, on.State)
		statusOf(t, s.api, sub.ID, idle)
		require.Equal(t, numbers("a", 3*i+3), idsOf(hook.Requests()))
	}
}

// S0-64: nothing goes to the endpoint of a subscription that was cancelled, a sample neither.
func TestSample_IsNotSentAfterCancellation(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusGone, func(hooktest.Request) bool { return true }))
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"gone"`))
	put(t, s.api, "/a", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.State == sluice.Cancelled })
	_, err := s.api.TestSubscription(t.Context(), sub.ID)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.Len(t, hook.Requests(), 1)
}

// A signed sample is sent on request, and the attempt is the answer; a cancelled subscription gets none.
func TestSample_IsSentOnRequest(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusBadGateway, func(r hooktest.Request) bool { return r.Number == 2 }))
	sub := subscribe(t, s.api, wish(hook.URL, `"enabled":false`))
	a, err := s.api.TestSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Delivered, http.StatusOK, 1, sub.ID}, []any{a.Outcome, a.Status, a.Number, a.Subscription})
	d := receive(t, receiverOf(t, s, sub, sub.Endpoint.Secret), hook.Wait(1)[0])
	require.Equal(t, []string{a.EventID, "sys.test", "default"}, []string{d.ID, d.Type, d.Namespace})
	a, err = s.api.TestSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Failed, http.StatusBadGateway}, []any{a.Outcome, a.Status})
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Items, "a sample is no event")
}

// S0-76, S0-80…85: what became of each event, newest first.
func TestDeliveries_AreListedNewestFirst(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	board := refusing("b-1")
	hook := hooktest.New(t, status(http.StatusBadGateway, board.refuses))
	sub := subscribe(t, s.api, wish(hook.URL, `"policy":{"retry":{"preset":"custom","steps":["1h"]}}`))
	put(t, s.api, "/a", 1, 3)
	statusOf(t, s.api, sub.ID, idle)
	put(t, s.api, "/b", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog == 0 })
	var all client.Page[client.Delivery]
	eventually(t, func() bool {
		var err error
		all, err = s.api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{})
		return err == nil && len(all.Items) == 4
	}, "all are listed")
	var ids, states []string
	for _, d := range all.Items {
		ids, states = append(ids, d.EventID), append(states, d.State)
	}
	require.Equal(t, []string{"b-1", "a-3", "a-2", "a-1"}, ids)
	require.Equal(t, []string{"retrying", "delivered", "delivered", "delivered"}, states)
	require.WithinDuration(t, time.Now().Add(time.Hour), *all.Items[0].NextAttemptAt, time.Minute)
	page, err := s.api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{State: "delivered", Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	rest, err := s.api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{State: "delivered", Limit: 2, Cursor: page.Next})
	require.NoError(t, err)
	require.Len(t, rest.Items, 1)
	_, err = s.api.Delivery(t.Context(), sub.ID, "nothing")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// Issue 2's rim: without the token no caller gets in, and public routes stay open.
func TestAuth_OnlyTheTokenOpensTheAPI(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, token := range []string{"", "Bearer wrong", "Basic " + s.token} {
		r := s.must(t, http.StatusUnauthorized, "GET /v1/subscriptions", "", "Authorization", token)
		require.Equal(t, "unauthenticated", r.field(t, "error.code"))
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.yaml", "/.well-known/jwks.json"} {
		s.must(t, http.StatusOK, "GET "+path, "", "Authorization", "")
	}
}

// An address that is taken is reported once, with the flag that helps.
func TestStart_AddressInUseNamesTheFlag(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	run := func(change func(*config.Config)) (logged string, err error) {
		cfg := config.Default()
		cfg.NATS.Prefix = jsNames(t).Prefix()
		cfg.Data, cfg.Dev, cfg.HTTP.Listen, cfg.NATS.Listen = t.TempDir(), true, "127.0.0.1:0", "127.0.0.1:0"
		change(&cfg)
		var log bytes.Buffer
		err = app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		return log.String(), err
	}
	at := taken.Addr().String()
	logged, err := run(func(c *config.Config) { c.NATS.Listen = at })
	require.EqualError(t, err, "nats.listen "+at+" is used by another process; choose another address with --nats-listen, where port 0 picks a free one")
	require.Empty(t, logged, "it is reported once, at the end")
	_, err = run(func(c *config.Config) { c.HTTP.Listen = at })
	require.ErrorContains(t, err, "http.listen "+at+" is used by another process; choose another address with --http,")
}

func TestStart_UnwritableDataDirectoryIsReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cfg := config.Default()
	cfg.NATS.Prefix = jsNames(t).Prefix()
	for _, cfg.Data = range []string{file, filepath.Join(file, "below")} {
		err := app.Run(t.Context(), cfg, app.Options{})
		require.EqualError(t, err, "data directory "+cfg.Data+" is not writable: not a directory; choose another one with --data or SLUICE_DATA")
	}
}
