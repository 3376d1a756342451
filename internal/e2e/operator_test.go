package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/jsm.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint" //nolint:depguard // it checks the text of a real server
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-06, S0-65, S0-66, S4-21: what the operator's own tools show: streams by namespace, a consumer
// named as the subscription whose numbers mean what they say, and records in buckets.
func TestOperator_NATSToolsShowTheLayout(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	board := refusing("orders-1-1")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"orders-to-erp"`, `"pattern":"/orders/*"`, `"policy":{"retry":{"preset":"custom","steps":["1h"]}}`))
	js := dial(t, s.at.NATS)
	tools, err := jsm.New(js.Conn())
	require.NoError(t, err)

	names, err := tools.StreamNames(nil)
	require.NoError(t, err)
	require.Subset(t, names, []string{jsNames(t).EventsStream("default"), jsNames(t).Attempts(), jsNames(t).DeadLetters(), jsNames(t).BucketStream("subscriptions"), jsNames(t).BucketStream("lanes"), jsNames(t).BucketStream("namespaces"), jsNames(t).BucketStream("leases")})
	put(t, s.api, "/orders/2", 1, 3)
	put(t, s.api, "/other", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.AckFloor == 4 })
	consumer, err := tools.LoadConsumer(jsNames(t).EventsStream("default"), "orders-to-erp")
	require.NoError(t, err)
	require.Equal(t, []any{"orders-to-erp", jsNames(t).EventsPrefix() + "default.orders.*", "subscription orders-to-erp: push /orders/*"},
		[]any{consumer.DurableName(), consumer.FilterSubject(), consumer.Description()})
	info, err := consumer.State()
	require.NoError(t, err)
	require.Equal(t, []any{uint64(4), uint64(0), 0}, []any{info.AckFloor.Stream, info.NumPending, info.NumAckPending})

	put(t, s.api, "/orders/1", 1, 2)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.AckFloor == 7 })
	lanes, err := js.KeyValue(t.Context(), jsNames(t).Bucket("lanes"))
	require.NoError(t, err)
	entry, err := lanes.Get(t.Context(), "orders-to-erp.p.orders.1")
	require.NoError(t, err)
	var parked sluice.Parked
	require.NoError(t, json.Unmarshal(entry.Value(), &parked))
	require.Equal(t, []any{uint64(6), "orders-1-1", 1, "status 503"}, []any{parked.FromSeq, parked.EventID, parked.Attempts, parked.LastError})
	subscriptions, err := js.KeyValue(t.Context(), jsNames(t).Bucket("subscriptions"))
	require.NoError(t, err)
	_, err = subscriptions.Get(t.Context(), "orders-to-erp")
	require.NoError(t, err)

	_, err = s.api.PauseSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	s.served(t, sub.ID, nil)
	put(t, s.api, "/orders/2", 4, 7)
	eventually(t, func() bool { info, err = consumer.State(); return err == nil && info.NumPending == 4 }, "four wait")
	require.Equal(t, uint64(7), info.AckFloor.Stream)
	stream, err := tools.LoadStream(jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	events, err := stream.State()
	require.NoError(t, err)
	require.Equal(t, []uint64{12, 12}, []uint64{events.Msgs, events.LastSeq}, "ten, and that it was created and paused")
}

// The names that dashboards use, with their counts.
func TestMetrics_Count(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	board := refusing("a-1", "b-1")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	long := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	dying := subscribe(t, s.api, wish(hook.URL, `"id":"dying"`, `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`))
	parked := subscribe(t, s.api, wish(long.URL, `"id":"parked"`, `"policy":{"retry":{"preset":"custom","steps":["1h"]}}`))
	put(t, s.api, "/a", 1, 3)
	put(t, s.api, "/b", 1, 1)
	put(t, s.api, "/b", 1, 1)
	statusOf(t, s.api, dying.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 2 })
	statusOf(t, s.api, parked.ID, func(st sluice.Status) bool { return st.Parked == 2 && st.Backlog == 0 })
	rep, err := s.api.Replay(t.Context(), parked.ID, client.ReplayRequest{From: "1"}) // its lanes wait, too
	require.NoError(t, err)
	s.must(t, http.StatusOK, "GET /v1/subscriptions/dying/status", "")
	s.must(t, http.StatusNotFound, "GET /v1/nothing/hunter2", "")
	want := []string{
		`sluice_events_published_total{namespace="default"} 8`, // four, and what the server says of itself,
		`sluice_log_events{namespace="default"} 8`,
		`sluice_events_matched_total{namespace="default",subscription="dying"} 4`,
		`sluice_attempts_total{namespace="default",outcome="delivered",subscription="dying"} 2`,
		`sluice_attempts_total{namespace="default",outcome="failed",subscription="dying"} 4`,
		`sluice_dead_letters_total{namespace="default",reason="exhausted",subscription="dying"} 2`,
		`sluice_attempt_duration_seconds_count{namespace="default"} 10`,
		`sluice_attempts_in_flight{namespace="default",subscription="dying"} 0`,
		`sluice_deliveries_buffered{namespace="default",subscription="dying"} 0`,
		`sluice_lanes_parked{namespace="default",subscription="dying"} 0`,
		`sluice_lanes_parked{namespace="default",subscription="parked"} 2`,
		`sluice_lag_seconds{namespace="default",subscription="dying"} 0`,
		`sluice_dead_letters_stored 2`,
		`sluice_subscription_dead_letters{namespace="default",subscription="dying"} 2`,
		`sluice_replays_running{namespace="default",subscription="parked"} 1`,
		`sluice_replay_progress_ratio{namespace="default",subscription="parked"} 1`,
		`sluice_http_requests_total{method="POST",route="/v1/subscriptions",status="2xx"} 2`,
		`sluice_http_request_duration_seconds_count{method="POST",route="/v1/subscriptions",status="2xx"} 2`,
		`sluice_http_requests_total{method="GET",route="unmatched",status="4xx"} 1`,
		`sluice_nats_connected 1`,
		`sluice_nats_reconnects_total 0`,
	}
	var missing []string
	var text string
	defer func() {
		if t.Failed() {
			t.Log(missing, "\n", text)
		}
	}()
	eventually(t, func() bool {
		text = s.must(t, http.StatusOK, "GET /metrics", "").text
		missing = nil
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				missing = append(missing, line)
			}
		}
		return len(missing) == 0
	}, "every count is right")
	_, lag, ok := strings.Cut(text, `sluice_lag_seconds{namespace="default",subscription="parked"} `)
	require.True(t, ok)
	require.False(t, strings.HasPrefix(lag, "0\n"), "the events of a parked lane grow older")
	require.Regexp(t, `\nsluice_build_info\{commit="\w+",go="go1\S+",version="test"\} 1\n`, text)
	require.Regexp(t, `\nsluice_nats_round_trip_seconds \d`, text)
	require.NotContains(t, text, "hunter2", "a path is no label")
	require.NotContains(t, text, "/v1/subscriptions/dying")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		content, err := os.ReadFile(filepath.Join("../../deploy/observability", file))
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`\b(sluice|process)_\w+`).FindAllString(string(content), -1) {
			require.Regexp(t, `\n`+name+`[ {]`, text, "%s: the server has no such metric", file)
		}
	}
	_, err = s.api.CancelReplay(t.Context(), parked.ID, rep.ID)
	require.NoError(t, err)
	require.NoError(t, s.api.DeleteSubscription(t.Context(), dying.ID))
	eventually(t, func() bool {
		text = s.must(t, http.StatusOK, "GET /metrics", "").text
		return !strings.Contains(text, `subscription="dying"`) && !strings.Contains(text, "sluice_replays_running{")
	}, "what a deleted subscription did is forgotten")
}
