package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// attempt records an attempt and waits until it is stored.
func (b *bench) attempt(t *testing.T, a sluice.Attempt) {
	t.Helper()
	stored := make(chan error, 1)
	b.attempts.Record(&a, sluice.DefaultNamespace, func(err error) { stored <- err })
	require.NoError(t, <-stored)
}

// S0-82, S0-84, S0-85.
func TestDeliveries_AreListedNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	at := time.Now().UTC().Truncate(time.Second).Add(time.Minute) // after the subscription was made
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
	require.Equal(t, []string{"t", "t", "t", "t"}, names(items, "type"))
	var last []string
	for _, before := range []time.Duration{0, time.Minute, 2 * time.Minute, 5 * time.Minute} {
		last = append(last, at.Add(-before).Format(time.RFC3339))
	}
	require.Equal(t, last, names(items, "last_attempt_at"), "when the last attempt of each began")
	e3 := b.must(t, http.StatusOK, "GET "+list+"/e3", "")
	require.Equal(t, []string{at.Add(-3 * time.Minute).Format(time.RFC3339), at.Format(time.RFC3339)}, names(e3.list(t, "attempts"), "started_at"))

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

func TestDeliveries_ShortPageIsFilledFromTheNext(t *testing.T) {
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

// What was lost before it was handed out has no attempt, and perhaps no event: a range stands for it.
func TestDeliveries_ListRangesOfLostEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	at := time.Now().UTC().Add(time.Minute)
	again := at.Add(time.Hour)
	b.attempt(t, sluice.Attempt{Subscription: id, EventID: "late", Seq: 9, Path: "/p", Number: 1, StartedAt: at, Outcome: sluice.Failed, Verdict: sluice.Verdict{Again: again}})
	letters := []sluice.DeadLetter{
		{EventID: "late", Seq: 9, LastSeq: 9, Path: "/p", Attempts: 1, Reason: sluice.Expired, At: at.Add(time.Second)},
		{Seq: 2, LastSeq: 5, Reason: sluice.Expired, LastError: "left the log", At: at.Add(2 * time.Second)},
		{EventID: "shown", Seq: 8, Attempts: 3, Reason: sluice.Exhausted, At: at.Add(3 * time.Second)},
	}
	for _, letter := range letters {
		letter.Subscription, letter.Namespace = id, sluice.DefaultNamespace
		require.NoError(t, b.attempts.Bury(t.Context(), letter))
	}
	list := "GET /v1/subscriptions/" + id + "/deliveries"
	items := b.must(t, http.StatusOK, list, "").list(t, "deliveries")
	require.Equal(t, []string{"", "late"}, names(items, "event_id"), "the letter takes the place of the attempt; another one's attempt shows it")
	require.Equal(t, []string{"dead", "dead"}, names(items, "state"))
	require.InDelta(t, 2, items[0]["seq"], 0)
	require.InDelta(t, 5, items[0]["last_seq"], 0)
	require.Equal(t, "expired", items[1]["reason"])
	for query, want := range map[string]int{"state=retrying": 0, "state=failed": 2, "path=/p": 1, "since=5": 1, "event_type=x": 0, "state=parked": 0} {
		require.Len(t, b.must(t, http.StatusOK, list+"?"+query, "").list(t, "deliveries"), want, query)
	}
	for _, query := range []string{"state=odd", "cursor=7", "cursor=1.2.-3", "path=p", "until=noon"} {
		b.must(t, http.StatusBadRequest, list+"?"+query, "")
	}
	one := b.must(t, http.StatusOK, list+"/late", "")
	require.Equal(t, "dead", one.body["state"])
	require.Len(t, one.list(t, "attempts"), 1)
}

// retrier answers with a replay of the event.
type retrier struct{ httpapi.Retrier }

func (retrier) Retry(_ context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error) {
	return sluice.Replay{ID: "r", Subscription: sub.ID, EventIDs: []string{event}, CreatedBy: by}, nil
}

func (retrier) Discard(_ context.Context, sub *sluice.Subscription, event, _ string) (sluice.Replay, error) {
	if event != "held" {
		return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "it holds no lane")
	}
	return sluice.Replay{ID: "d", Kind: sluice.ReplayDiscard, Subscription: sub.ID, EventIDs: []string{event}}, nil
}

func TestDelivery_IsDiscardedOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	line := "POST /v1/subscriptions/" + id + "/deliveries/"
	require.Equal(t, "unavailable", b.must(t, http.StatusServiceUnavailable, line+"held/discard", "").code())
	opts := b.options()
	opts.Retrier = retrier{}
	b.http.Config.Handler = httpapi.New(opts).Handler()
	a := b.must(t, http.StatusAccepted, line+"held/discard", "")
	require.Equal(t, []any{"d", "discard", []any{"held"}}, []any{a.body["id"], a.body["kind"], a.body["event_ids"]})
	require.Equal(t, "conflict", b.must(t, http.StatusConflict, line+"other/discard", "").code())
	b.must(t, http.StatusNotFound, "POST /v1/subscriptions/none/deliveries/held/discard", "")
}

func TestDelivery_IsRetriedOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	line := "POST /v1/subscriptions/" + id + "/deliveries/a%2Fb/retry"
	require.Equal(t, "unavailable", b.must(t, http.StatusServiceUnavailable, line, "").code())
	opts := b.options()
	opts.Retrier = retrier{}
	b.http.Config.Handler = httpapi.New(opts).Handler()
	a := b.must(t, http.StatusAccepted, line, "")
	require.Equal(t, []any{"r", id, []any{"a/b"}, "root"}, []any{a.body["id"], a.body["subscription"], a.body["event_ids"], a.body["created_by"]})
	b.must(t, http.StatusNotFound, "POST /v1/subscriptions/none/deliveries/e/retry", "")
}

// Decision 0008: a probe is shown and not counted.
func TestDelivery_ProbeIsShownAndNotCounted(t *testing.T) {
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
