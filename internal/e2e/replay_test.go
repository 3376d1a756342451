package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// ended waits for the end of a replay and returns it.
func ended(t *testing.T, api *client.Client, rep sluice.Replay) sluice.Replay {
	t.Helper()
	eventually(t, func() bool {
		var err error
		rep, err = api.GetReplay(t.Context(), rep.Subscription, rep.ID)
		return err == nil && rep.State != sluice.ReplayRunning
	}, "the replay ends")
	return rep
}

// S0-50, S0-51: a past range is delivered again, under the same ids, in the order of its paths,
// those events that the subscription and the replay want.
func TestReplay_DeliversAPastRangeAgain(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, api, wish(hook.URL, `"pattern":"/a"`))
	for i := 1; i <= 10; i++ {
		_, err := api.Publish(t.Context(), "default", sluice.Event{ID: fmt.Sprint("e", i), Path: []sluice.Path{"/a", "/b"}[i%2], Type: []string{"t.x", "t.y"}[i/6]})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"e2", "e4", "e6", "e8", "e10"}, idsOf(hook.Wait(5)))
	statusOf(t, api, sub.ID, idle)

	count, err := api.CountReplay(t.Context(), sub.ID, client.ReplayRequest{From: "4", To: "e8"}) // the first place is the system's own
	require.NoError(t, err)
	require.Equal(t, client.ReplayCount{Count: 3, Exact: true}, count)
	rep, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{From: "4", To: "e8"})
	require.NoError(t, err)
	for _, nonsense := range []client.ReplayRequest{{From: "9", To: "4"}, {From: "9999"}, {EventIDs: []string{""}}, {Rate: sluice.Rate{PerMinute: -1}}} {
		_, err := api.Replay(t.Context(), sub.ID, nonsense)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%+v: %v", nonsense, err)
	}
	_, err = api.Replay(t.Context(), sub.ID, client.ReplayRequest{From: "soon"})
	require.ErrorContains(t, err, "nor a sequence, nor an RFC 3339 time")
	hour, err := api.CountReplay(t.Context(), sub.ID, client.ReplayRequest{From: "1h"})
	require.NoError(t, err)
	require.Positive(t, hour.Count, "what came within the hour")
	none, err := api.CountReplay(t.Context(), sub.ID, client.ReplayRequest{From: "12"}) // what comes next: there is just nothing yet
	require.NoError(t, err)
	require.Zero(t, none.Count)
	require.Equal(t, []any{sluice.ReplayRunning, uint64(4), uint64(9), uint64(6)}, []any{rep.State, rep.From, rep.To, rep.Total})
	again := hook.Wait(8)[5:]
	require.Equal(t, []string{"e4", "e6", "e8"}, idsOf(again))
	rep = ended(t, api, rep)
	require.Equal(t, []any{sluice.ReplayDone, uint64(10), uint64(3), uint64(0)}, []any{rep.State, rep.Next, rep.Sent, rep.Dead})
	require.NotNil(t, rep.EndedAt)

	typed, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{Types: []string{"t.y"}, To: rep.EndedAt.Format(time.RFC3339Nano)})
	require.NoError(t, err)
	require.Equal(t, []string{"e6", "e8", "e10"}, idsOf(hook.Wait(11)[8:]))
	require.Equal(t, uint64(3), ended(t, api, typed).Sent)
	some, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{EventIDs: []string{"e2", "e3"}})
	require.NoError(t, err)
	require.Equal(t, uint64(1), ended(t, api, some).Sent)
	require.Equal(t, "e2", idOf(hook.Wait(12)[11]))
	for _, r := range hook.Requests() {
		require.Equal(t, "1", r.Header.Get(webhook.HeaderAttempt))
	}
	all, err := api.Replays(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, []string{some.ID, typed.ID, rep.ID}, []string{all[0].ID, all[1].ID, all[2].ID})
}

// A replay retries like live deliveries do, beside them: neither a failing replay nor a long one
// holds up what comes.
func TestReplay_RunsBesideLiveDeliveries(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	var replaying atomic.Bool
	var fails atomic.Int32
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if replaying.Load() && idOf(r) == "a-2" && fails.Add(1) <= 2 {
			return hooktest.Answer{Status: http.StatusInternalServerError}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, api, wish(hook.URL, `"policy":{"retry":{"preset":"custom","steps":["300ms"],"max_attempts":4}}`))
	put(t, api, "/a", 1, 5)
	hook.Wait(5)
	statusOf(t, api, sub.ID, idle)
	replaying.Store(true)
	rep, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{})
	require.NoError(t, err)
	hook.Wait(7) // the first one again, and the failure
	put(t, api, "/a", 6, 8)
	rep = ended(t, api, rep)
	require.Equal(t, []any{sluice.ReplayDone, uint64(5), uint64(0)}, []any{rep.State, rep.Sent, rep.Dead})
	var live, replayed []string
	for i, r := range hook.Wait(5 + 5 + 2 + 3) {
		n, err := strconv.Atoi(idOf(r)[2:])
		require.NoError(t, err)
		switch {
		case n > 5 || i < 5:
			live = append(live, idOf(r))
		default:
			replayed = append(replayed, idOf(r))
		}
	}
	require.Equal(t, []string{"a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8"}, live)
	require.Equal(t, []string{"a-1", "a-2", "a-2", "a-2", "a-3", "a-4", "a-5"}, replayed)
}

// A replay that was interrupted by a restart goes on where it was.
func TestReplay_SurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, wish(hook.URL))
	put(t, s.api, "/a", 1, 60)
	hook.Wait(60)
	statusOf(t, s.api, sub.ID, idle)
	rep, err := s.api.Replay(t.Context(), sub.ID, client.ReplayRequest{Rate: sluice.Rate{PerSecond: 40}})
	require.NoError(t, err)
	hook.Wait(75)
	s.stop(t)
	s = start(t, dir, nil)
	rep = ended(t, s.api, rep)
	require.Equal(t, []any{sluice.ReplayDone, uint64(60)}, []any{rep.State, rep.Sent})
	var ids []string
	for i := 1; i <= 60; i++ {
		ids = append(ids, fmt.Sprint("a-", i))
	}
	require.Equal(t, ids, idsOf(hook.Requests()[60:]), "each once, in order")
}

// A replay ends when it is cancelled, and with its subscription: nothing is sent to an endpoint
// that is gone.
func TestReplay_IsCancelled(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	var gone atomic.Bool
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer {
		if gone.Load() {
			return hooktest.Answer{Status: http.StatusGone}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, api, wish(hook.URL))
	put(t, api, "/a", 1, 50)
	hook.Wait(50)
	slow := client.ReplayRequest{Rate: sluice.Rate{PerMinute: 6}}
	rep, err := api.Replay(t.Context(), sub.ID, slow)
	require.NoError(t, err)
	hook.Wait(51)
	rep, err = api.CancelReplay(t.Context(), sub.ID, rep.ID)
	require.NoError(t, err)
	require.Equal(t, sluice.ReplayCancelled, rep.State)

	second, err := api.Replay(t.Context(), sub.ID, slow)
	require.NoError(t, err)
	gone.Store(true)
	second = ended(t, api, second)
	require.Equal(t, sluice.ReplayCancelled, second.State)
	sent := len(hook.Requests())
	_, err = api.Replay(t.Context(), sub.ID, slow)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.Less(t, sent, 60)
	first, err := api.GetReplay(t.Context(), sub.ID, rep.ID)
	require.NoError(t, err)
	require.Equal(t, "cancelled by root", first.Reason)
}

// A subscription is moved to another place of its log, back or forth.
func TestSeek_MovesASubscription(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	var failing atomic.Bool
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if failing.Load() && idOf(r) == "a-5" {
			return hooktest.Answer{Status: http.StatusInternalServerError}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, api, wish(hook.URL, slowRetry))
	put(t, api, "/a", 1, 4)
	hook.Wait(4)
	moved, err := api.SeekSubscription(t.Context(), sub.ID, "a-3")
	require.NoError(t, err)
	require.NotNil(t, moved.SoughtAt)
	require.Equal(t, []string{"a-3", "a-4"}, idsOf(hook.Wait(6)[4:]))

	failing.Store(true)
	put(t, api, "/a", 5, 8)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 })
	_, err = api.SeekSubscription(t.Context(), sub.ID, "new")
	require.NoError(t, err)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 0 && st.Backlog == 0 })
	put(t, api, "/a", 9, 9)
	require.Equal(t, []string{"a-5", "a-9"}, idsOf(hook.Wait(8)[6:]), "what was passed over is not sent")

	failing.Store(false)
	_, err = api.SeekSubscription(t.Context(), sub.ID, "all")
	require.NoError(t, err)
	require.Len(t, hook.Wait(17), 17)
	for _, bad := range []string{"", "99", "nobody", "2099-01-01T00:00:00Z"} {
		_, err = api.SeekSubscription(t.Context(), sub.ID, bad)
		require.Error(t, err, bad)
	}
}

// One event is sent again: the head of a parked lane at once and in its lane, a dead letter as a
// redrive, any other as a replay.
func TestDelivery_IsRetriedOnRequest(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	var well atomic.Bool
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if !well.Load() {
			return hooktest.Answer{Status: http.StatusInternalServerError}
		}
		return hooktest.Answer{}
	})
	slow := subscribe(t, api, wish(hook.URL, `"id":"slow"`, `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":3}}`))
	put(t, api, "/a", 1, 2)
	hook.Wait(1)
	statusOf(t, api, slow.ID, func(st sluice.Status) bool { return st.Parked == 1 })
	well.Store(true)
	rep, err := api.RetryDelivery(t.Context(), slow.ID, "a-1")
	require.NoError(t, err)
	requests := hook.Wait(3)
	require.Equal(t, []string{"a-1", "a-1", "a-2"}, idsOf(requests))
	require.Equal(t, "2", requests[1].Header.Get(webhook.HeaderAttempt))
	rep = ended(t, api, rep)
	require.Equal(t, []any{sluice.ReplayDone, uint64(0)}, []any{rep.State, rep.Sent}, "%s", rep.Reason)
	statusOf(t, api, slow.ID, idle)

	rep, err = api.RetryDelivery(t.Context(), slow.ID, "3")
	require.NoError(t, err)
	require.Equal(t, uint64(1), ended(t, api, rep).Sent)
	require.Equal(t, "a-2", idOf(hook.Wait(4)[3]))

	well.Store(false)
	mortal := subscribe(t, api, wish(hook.URL, `"id":"mortal"`, `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":1}}`))
	require.NoError(t, api.DeleteSubscription(t.Context(), slow.ID))
	put(t, api, "/a", 3, 3)
	statusOf(t, api, mortal.ID, func(st sluice.Status) bool { return st.DeadLetters == 1 })
	well.Store(true)
	rep, err = api.RetryDelivery(t.Context(), mortal.ID, "a-3")
	require.NoError(t, err)
	require.Equal(t, sluice.ReplayDeadLetters, rep.Kind)
	require.Equal(t, uint64(1), ended(t, api, rep).Sent)
	statusOf(t, api, mortal.ID, func(st sluice.Status) bool { return st.DeadLetters == 0 })
	_, err = api.RetryDelivery(t.Context(), mortal.ID, "nobody")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	put(t, api, "/b", 1, 1)
	picky := subscribe(t, api, wish(hook.URL, `"id":"picky"`, `"pattern":"/b"`))
	_, err = api.RetryDelivery(t.Context(), picky.ID, "a-3")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "it is not of its pattern: %v", err)
	require.ErrorContains(t, err, "does not match the pattern or the filter")
}
