package e2e_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// parking is a policy under which a failed attempt is not repeated while the test runs.
const parking = `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":3}}`

// why asks what became of an event until the state is as wanted.
func why(t *testing.T, api *client.Client, sub, event, state string) client.Delivery {
	t.Helper()
	var d client.Delivery
	eventually(t, func() bool {
		var err error
		d, err = api.Delivery(t.Context(), sub, event)
		return err == nil && d.State == state
	}, event+" is "+state)
	t.Log(event, d.State, d.Reason, d.Explanation)
	return d
}

// window returns the ids of a subscription's events after a place, and the place to go on at.
func window(t *testing.T, api *client.Client, sub string, q client.WindowQuery) ([]string, string) {
	t.Helper()
	page, err := api.SubscriptionEvents(t.Context(), sub, q)
	require.NoError(t, err)
	ids := []string{}
	for _, ev := range page.Events {
		ids = append(ids, ev.ID)
	}
	return ids, page.NextAfter
}

// Issue 3, 5: there is an answer for any fate of an event.
func TestExplain_NamesAReasonForEveryEvent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/orders/0", 1, 1)
	board := refusing("orders-1-2")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"why"`, `"pattern":"/orders/*"`, `"filter":{"types":["test.*"],"cel":"event.data.n < 50"}`, parking))
	put(t, s.api, "/orders/1", 1, 4)
	put(t, s.api, "/elsewhere", 1, 1)
	put(t, s.api, "/orders/2", 50, 50)
	_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{ID: "typed", Path: "/orders/3", Type: "other"})
	require.NoError(t, err)

	d := why(t, s.api, sub.ID, "orders-1-1", "delivered")
	require.Contains(t, d.Explanation, "got status 200")
	require.Len(t, d.Attempts, 1)
	d = why(t, s.api, sub.ID, "orders-1-2", "retrying")
	require.Contains(t, d.Explanation, "Attempt 1 failed (status 503); the next attempt is due at ")
	require.WithinDuration(t, time.Now().Add(time.Hour), *d.NextAttemptAt, time.Minute)
	d = why(t, s.api, sub.ID, "orders-1-4", "waiting")
	require.Contains(t, d.Explanation, "It waits behind event orders-1-2 (sequence 4), whose attempt 1 failed (status 503); the next attempt is due at ")
	require.Equal(t, "orders-1-2", d.Behind.EventID)
	require.Equal(t, d, why(t, s.api, sub.ID, "6", "waiting"), "a sequence is as good as an id")

	for event, want := range map[string][2]string{
		"orders-0-1":  {"before_start", "before the start of the subscription, sequence 2"},
		"elsewhere-1": {"pattern", "The pattern /orders/* does not match its path"},
		"orders-2-50": {"filter", "the expression event.data.n < 50 is not true"},
		"typed":       {"filter", `its type is "other", but the filter requires test.*`},
	} {
		d = why(t, s.api, sub.ID, event, "not_wanted")
		require.Equal(t, want[0], string(d.Reason))
		require.Contains(t, d.Explanation, want[1])
	}
	_, err = s.api.Delivery(t.Context(), sub.ID, "never")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.ErrorContains(t, err, `event "never" not found in default`)

	_, err = s.api.PauseSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	s.served(t, sub.ID, nil)
	put(t, s.api, "/orders/9", 1, 1)
	d = why(t, s.api, sub.ID, "orders-9-1", "backlog")
	require.Equal(t, sluice.Reason("paused"), d.Reason)
	require.Contains(t, d.Explanation, "The subscription is paused: deliveries stop until it is resumed.")
	d = why(t, s.api, sub.ID, "orders-1-2", "retrying")
	require.Contains(t, d.Explanation, "The subscription is paused")

	// The lane alone knows of an attempt that the log has lost.
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).Attempts())
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	d = why(t, s.api, sub.ID, "orders-1-2", "retrying")
	require.Equal(t, 1, d.AttemptCount)
	why(t, s.api, sub.ID, "orders-1-1", "not_recorded")
	page, err := s.api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{})
	require.NoError(t, err)
	require.Len(t, page.Items, 1, "the head of the parked lane")
	require.Equal(t, []any{"orders-1-2", "retrying", 1, "status 503"}, []any{page.Items[0].EventID, page.Items[0].State, page.Items[0].AttemptCount, page.Items[0].LastError})
	require.NotNil(t, page.Items[0].NextAttemptAt)
	s.must(t, http.StatusAccepted, "POST /v1/subscriptions/why/deliveries/orders-1-2/retry", "")
}

// Dead letters are explained, and listed where no attempt shows them.
func TestExplain_CoversDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool { return idOf(r) != "b-1" }))
	sub := subscribe(t, s.api, wish(hook.URL, `"filter":{"cel":"100 / event.data.n < 50"}`, `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`))
	put(t, s.api, "/z", 0, 0)
	put(t, s.api, "/a", 3, 3)
	d := why(t, s.api, sub.ID, "z-0", "dead")
	require.Equal(t, sluice.Reason("filter_error"), d.Reason)
	require.Contains(t, d.Explanation, "the filter cannot be evaluated")
	d = why(t, s.api, sub.ID, "a-3", "dead")
	require.Contains(t, d.Explanation, "none of its 2 attempts succeeded (status 418)")
	ids := func(q client.DeliveriesQuery) (ids []string) {
		page, err := s.api.Deliveries(t.Context(), sub.ID, q)
		require.NoError(t, err)
		for _, d := range page.Items {
			ids = append(ids, d.EventID)
		}
		return ids
	}
	statusOf(t, s.api, sub.ID, idle)
	require.ElementsMatch(t, []string{"z-0", "a-3"}, ids(client.DeliveriesQuery{}))
	require.Equal(t, []string{"z-0"}, ids(client.DeliveriesQuery{State: "dead", Path: "/z"}))
	require.Empty(t, ids(client.DeliveriesQuery{State: "delivered"}))
	require.Len(t, ids(client.DeliveriesQuery{State: "failed", Types: []string{"test.*"}}), 2)
	require.Empty(t, ids(client.DeliveriesQuery{Until: sub.CreatedAt.Add(-time.Hour)}))

	// Page by page it is the same.
	var all []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		require.Less(t, pages, 9)
		page, err := s.api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{Limit: 1, Cursor: cursor, State: "dead"})
		require.NoError(t, err)
		for _, d := range page.Items {
			all = append(all, d.EventID)
		}
		cursor = page.Next
	}
	require.ElementsMatch(t, []string{"z-0", "a-3"}, all)
}

// An event that left the log unsent is explained by what is left of it.
func TestExplain_CoversExpiredEvents(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, func(hooktest.Request) bool { return true }))
	sub := subscribe(t, s.api, wish(hook.URL, parking))
	gone := subscribe(t, s.api, wish("https://listen.invalid/", `"id":"other"`, `"start":"all"`, `"enabled":false`, `"pattern":"/b"`))
	put(t, s.api, "/a", 1, 3)
	put(t, s.api, "/b", 1, 1)
	why(t, s.api, sub.ID, "a-2", "waiting")
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(6)))
	d := why(t, s.api, sub.ID, "a-1", "retrying")
	require.Len(t, d.Attempts, 1, "its attempts are still known")
	d = why(t, s.api, gone.ID, "2", "not_kept")
	require.Contains(t, d.Explanation, "it starts at sequence 6")
}

// S0-49: what a cancelled subscription did not get has ended.
func TestExplain_CancelledSubscriptionHasEnded(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, status(http.StatusGone, func(hooktest.Request) bool { return true }))
	sub := subscribe(t, api, wish(hook.URL))
	put(t, api, "/a", 1, 2)
	d := why(t, api, sub.ID, "a-1", "dead")
	require.Equal(t, sluice.Reason("endpoint_gone"), d.Reason)
	require.Contains(t, d.Explanation, "returned 410")
	d = why(t, api, sub.ID, "a-2", "ended")
	require.Contains(t, d.Explanation, "The subscription was cancelled (endpoint_gone) before it was sent")
}

// S0-50, S0-51, S0-53, C11: the events that a subscription gets, after a place of any form.
func TestWindow_HasTheEventsOfItsSubscription(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/orders/0", 1, 1)
	sub := subscribe(t, s.api, wish("https://listen.invalid/", `"pattern":"/orders/**"`, `"enabled":false`, `"filter":{"cel":"event.data.n != 3"}`))
	for n := 1; n <= 5; n++ {
		put(t, s.api, "/orders/1", n, n)
		put(t, s.api, "/other", n, n)
	}
	all := []string{"orders-1-1", "orders-1-2", "orders-1-4", "orders-1-5"}
	for after, want := range map[string][]string{
		"": all, "-1": all, "0": all, "now": {}, "orders-1-2": all[2:], "7": all[2:], "other-4": all[3:], "12": {},
		sub.CreatedAt.Format(time.RFC3339Nano): all, time.Now().Add(time.Hour).Format(time.RFC3339): {},
	} {
		got, next := window(t, s.api, sub.ID, client.WindowQuery{After: after})
		require.Equal(t, want, got, "after %q", after)
		require.Equal(t, "12", next, "after %q: all was looked at; one is the system's own", after)
	}
	var got []string
	for after, pages := "", 0; pages == 0 || after != "12"; pages++ {
		require.Less(t, pages, 5)
		var ids []string
		ids, after = window(t, s.api, sub.ID, client.WindowQuery{After: after, Limit: 1})
		got = append(got, ids...)
	}
	require.Equal(t, all, got)
	ids, _ := window(t, s.api, sub.ID, client.WindowQuery{Types: []string{"other.*"}})
	require.Empty(t, ids)
	r := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+sub.ID+"/events?limit=1", "")
	require.InDelta(t, 3600, r.field(t, "replay_window_s"), 0)
	for query, code := range map[string]int{"after=unknown": 404, "wait=31s": 400, "wait=x": 400, "limit=0": 400, "since=1": 400} {
		s.must(t, code, "GET /v1/subscriptions/"+sub.ID+"/events?"+query, "")
	}
	s.must(t, http.StatusNotFound, "GET /v1/subscriptions/none/events", "")
}

// S0-52, C11: what is outside the window, or not kept, cannot be had, and the answer says from
// where on it can.
func TestWindow_OutsideIsGone(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	short := subscribe(t, s.api, wish("https://listen.invalid/", `"start":"all"`, `"enabled":false`, `"replay_window":"1ms"`))
	long := subscribe(t, s.api, wish("https://listen.invalid/long", `"start":"all"`, `"enabled":false`))
	put(t, s.api, "/a", 1, 6)
	stored, err := s.api.Event(t.Context(), sluice.DefaultNamespace, "a-6")
	require.NoError(t, err)
	eventually(t, func() bool { return time.Since(stored.Time) > 50*time.Millisecond }, "the window has moved on")
	exceeded := func(sub, after string, oldest, current, window int) {
		t.Helper()
		r := s.must(t, http.StatusGone, "GET /v1/subscriptions/"+sub+"/events?after="+after, "")
		require.Equal(t, "replay_window_exceeded", r.field(t, "error.code"))
		require.InDelta(t, oldest, r.field(t, "error.details.oldest_available_seq"), 0)
		require.InDelta(t, current, r.field(t, "error.details.current_seq"), 0)
		require.InDelta(t, window, r.field(t, "error.details.replay_window_s"), 0)
	}
	exceeded(short.ID, "a-2", 9, 8, 0) // two are the system's own
	exceeded(short.ID, "4", 9, 8, 0)
	ids, next := window(t, s.api, short.ID, client.WindowQuery{})
	require.Empty(t, ids)
	require.Equal(t, "8", next)
	ids, _ = window(t, s.api, short.ID, client.WindowQuery{After: "a-6"})
	require.Empty(t, ids, "nothing was missed")

	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(6)))
	exceeded(long.ID, "3", 6, 8, 3600)
	exceeded(long.ID, "_default-4", 6, 8, 3600)
	ids, _ = window(t, s.api, long.ID, client.WindowQuery{After: "5"})
	require.Equal(t, []string{"a-4", "a-5", "a-6"}, ids)
}

// A request that waits is answered when there is something, or the server ends.
func TestWindow_WaitingRequestGetsTheNextEvent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	sub := subscribe(t, s.api, wish("https://listen.invalid/", `"enabled":false`, `"filter":{"cel":"event.data.n > 90"}`))
	put(t, s.api, "/a", 1, 3)
	consumers := func() int {
		stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
		require.NoError(t, err)
		return stream.CachedInfo().State.Consumers
	}
	waiting := func(after string) chan client.Window {
		eventually(t, func() bool { return consumers() == 1 }, "none waits")
		got := make(chan client.Window, 1)
		go func() {
			page, err := s.api.SubscriptionEvents(t.Context(), sub.ID, client.WindowQuery{After: after, Wait: 30 * time.Second})
			if err == nil {
				got <- page
			}
			close(got)
		}()
		eventually(t, func() bool { return consumers() == 2 }, "it waits")
		return got
	}
	got := waiting("")
	put(t, s.api, "/a", 4, 6)
	put(t, s.api, "/a", 91, 92)
	page := <-got
	require.NotEmpty(t, page.Events)
	require.Equal(t, "a-91", page.Events[0].ID)
	last, err := strconv.Atoi(page.NextAfter)
	require.NoError(t, err)
	require.GreaterOrEqual(t, last, 8)
	got = waiting("9")
	s.stop(t)
	page, answered := <-got
	require.True(t, answered, "the end of the server is an answer, not a broken connection")
	require.Empty(t, page.Events)
	require.Equal(t, "9", page.NextAfter)
}

// What was not sent yet is told apart: under way, or not reached.
func TestExplain_TellsInFlightFromNotReached(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	release := make(chan struct{})
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Until: release} })
	sub := subscribe(t, api, wish(hook.URL, `"policy":{"window":2}`))
	put(t, api, "/a", 1, 3)
	put(t, api, "/b", 1, 1)
	hook.Wait(1)
	why(t, api, sub.ID, "a-2", "in_flight")
	d := why(t, api, sub.ID, "b-1", "backlog")
	require.Contains(t, d.Explanation, "The subscription has not reached it yet: its consumer is at sequence 3.")
	close(release)
	why(t, api, sub.ID, "b-1", "delivered")
}
