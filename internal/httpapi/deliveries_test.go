package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// attempt records an attempt and waits until it is stored.
func (b *bench) attempt(t *testing.T, a sluice.Attempt) {
	t.Helper()
	stored := make(chan error, 1)
	b.attempts.Record(&a, sluice.DefaultNamespace, func(err error) { stored <- err })
	require.NoError(t, <-stored)
}

// S0-84, S0-85.
func TestDeliveriesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	again := at.Add(time.Hour)
	record := func(event string, number int, verdict sluice.Verdict, status int) {
		at = at.Add(time.Minute)
		b.attempt(t, sluice.Attempt{
			Subscription: id, EventID: event, Seq: uint64(event[1] - '0'), Path: "/p", Type: "t", Number: number, StartedAt: at,
			Outcome: sluice.Failed, Status: status, Verdict: verdict,
		})
	}
	record("e1", 1, sluice.Verdict{Settled: true}, 200)
	record("e2", 1, sluice.Verdict{Again: again}, 500)
	record("e3", 1, sluice.Verdict{Again: again}, 500)
	record("e2", 2, sluice.Verdict{Settled: true}, 204)
	record("e4", 1, sluice.Verdict{Dead: sluice.Exhausted}, 500)
	record("e3", 2, sluice.Verdict{Again: again}, 503)
	list := "/v1/subscriptions/" + id + "/deliveries"

	a := b.must(t, http.StatusOK, "GET "+list, "")
	require.Empty(t, a.body["next_cursor"])
	items := a.list(t, "deliveries")
	require.Equal(t, []string{"e3", "e4", "e2", "e1"}, names(items, "event_id"))
	require.Equal(t, []string{"retrying", "dead", "delivered", "delivered"}, names(items, "state"))
	require.Equal(t, "exhausted", items[1]["reason"])
	require.InDelta(t, 2, items[0]["attempt_count"], 0)
	require.InDelta(t, 503, items[0]["last_status"], 0)
	require.Equal(t, again.Format(time.RFC3339), items[0]["next_attempt_at"])
	require.NotContains(t, items[0], "attempts")

	tests := []struct {
		query string
		want  []string
	}{
		{"state=delivered", []string{"e2", "e1"}},
		{"state=retrying", []string{"e3"}},
		{"state=dead", []string{"e4"}},
		{"since=2", []string{"e3", "e4"}},
		{"since=-1&state=dead", []string{"e4"}},
		{"since=" + url.QueryEscape(at.Add(-time.Minute).Format(time.RFC3339)), []string{"e3", "e4"}},
		{"limit=2", []string{"e3", "e4"}},
	}
	for _, tt := range tests {
		a := b.must(t, http.StatusOK, "GET "+list+"?"+tt.query, "")
		require.Equal(t, tt.want, names(a.list(t, "deliveries"), "event_id"), tt.query)
	}

	var states []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		require.Less(t, pages, 7)
		a := b.must(t, http.StatusOK, "GET "+list+"?limit=1&cursor="+cursor, "")
		states = append(states, names(a.list(t, "deliveries"), "event_id")...)
		cursor, _ = a.body["next_cursor"].(string)
	}
	require.Equal(t, []string{"e3", "e4", "e2", "e3", "e2", "e1"}, states, "on several pages a delivery is there again; the first is how it is now")

	one := b.must(t, http.StatusOK, "GET "+list+"/e2", "")
	require.Equal(t, "delivered", one.body["state"])
	attempts := one.list(t, "attempts")
	require.Equal(t, "1 2", fmt.Sprint(attempts[0]["number"], " ", attempts[1]["number"]))
}

func TestAPageOfFewDeliveriesIsFilledFromTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	for i := range 6 {
		verdict := sluice.Verdict{Settled: true}
		if i%3 == 0 {
			verdict = sluice.Verdict{Dead: sluice.Exhausted}
		}
		b.attempt(t, sluice.Attempt{Subscription: id, EventID: fmt.Sprintf("e%d", i), Seq: uint64(i + 1), Path: "/p", Number: 1, StartedAt: time.Now(), Verdict: verdict})
	}
	a := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/deliveries?state=dead&limit=2", "")
	require.Equal(t, []string{"e3", "e0"}, names(a.list(t, "deliveries"), "event_id"))
}

// Decision 0008: a probe is shown and not counted.
func TestAProbeIsShownAndNotCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	for i, probe := range []bool{false, true} {
		b.attempt(t, sluice.Attempt{
			Subscription: id, EventID: "e1", Seq: 1, Path: "/p", Type: "t", Number: i + 1, Probe: probe, StartedAt: time.Now(),
			Outcome: sluice.Failed, Status: 503, Verdict: sluice.Verdict{Again: time.Now()},
		})
	}
	items := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/deliveries", "").list(t, "deliveries")
	require.Len(t, items, 1)
	require.InDelta(t, 1, items[0]["attempt_count"], 0)
	require.Equal(t, "retrying", items[0]["state"])
	one := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/deliveries/e1", "")
	attempts := one.list(t, "attempts")
	require.Len(t, attempts, 2)
	require.NotContains(t, attempts[0], "probe")
	require.Equal(t, true, attempts[1]["probe"])
}
