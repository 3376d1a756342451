package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const slowRetry = `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":3}}`

// laneKeys returns the keys of the bucket of lanes that contain a text.
func laneKeys(t *testing.T, s *running, text string) (keys []string) {
	t.Helper()
	kv, err := dial(t, s.at.NATS).KeyValue(t.Context(), jsNames(t).Bucket(streams.Lanes))
	require.NoError(t, err)
	lister, err := kv.ListKeys(t.Context())
	require.NoError(t, err)
	for key := range lister.Keys() {
		if strings.Contains(key, text) {
			keys = append(keys, key)
		}
	}
	return keys
}

// However a replay ends, nothing is left of its lanes.
func TestReplay_LeavesNoLanes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	api := s.api
	for name, end := range map[string]func(rep sluice.Replay) error{
		"sought": func(rep sluice.Replay) error {
			_, err := api.SeekSubscription(t.Context(), rep.Subscription, "new")
			return err
		},
		"cancelled": func(rep sluice.Replay) error {
			_, err := api.CancelReplay(t.Context(), rep.Subscription, rep.ID)
			return err
		},
		"paused-cancelled": func(rep sluice.Replay) error {
			if _, err := api.PauseSubscription(t.Context(), rep.Subscription); err != nil {
				return err
			}
			_, err := api.CancelReplay(t.Context(), rep.Subscription, rep.ID)
			return err
		},
		"deleted": func(rep sluice.Replay) error {
			return api.DeleteSubscription(t.Context(), rep.Subscription)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failing atomic.Bool
			hook := hooktest.New(t, status(http.StatusInternalServerError, func(hooktest.Request) bool { return failing.Load() }))
			sub := subscribe(t, api, wish(hook.URL, `"id":"`+name+`"`, `"pattern":"/`+name+`/*"`, slowRetry))
			for i := range 3 {
				put(t, api, sluice.Path(fmt.Sprint("/", name, "/", i)), 1, 2)
			}
			hook.Wait(6)
			statusOf(t, api, sub.ID, idle)
			failing.Store(true)
			rep, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{})
			require.NoError(t, err)
			lanes := streams.ReplayLanes(rep.ID)
			eventually(t, func() bool { return len(laneKeys(t, s, lanes)) == 3 }, "its lanes are parked")
			require.NoError(t, end(rep))
			eventually(t, func() bool { return len(laneKeys(t, s, lanes)) == 0 }, "its lanes are gone")
		})
	}
}

// What a replay sent is counted once and for all, also what was sent when its lanes were read back.
func TestReplay_CountsAcrossARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	var failing atomic.Bool
	hook := hooktest.New(t, status(http.StatusInternalServerError, func(hooktest.Request) bool { return failing.Load() }))
	sub := subscribe(t, s.api, wish(hook.URL, quick))
	put(t, s.api, "/a", 1, 10)
	hook.Wait(10)
	statusOf(t, s.api, sub.ID, idle)
	failing.Store(true)
	rep, err := s.api.Replay(t.Context(), sub.ID, client.ReplayRequest{Rate: sluice.Rate{PerSecond: 3}})
	require.NoError(t, err)
	eventually(t, func() bool {
		now, err := s.api.GetReplay(t.Context(), sub.ID, rep.ID)
		return err == nil && now.Next > now.To
	}, "everything is parked")
	failing.Store(false)
	n := len(hook.Requests())
	hook.Wait(n + 5)
	s.stop(t)
	s = start(t, dir, nil)
	require.Equal(t, uint64(10), ended(t, s.api, rep).Sent)
}

// A rate that is lifted is lifted at once, after any waits of the former one.
func TestRate_LiftedOneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, wish(hook.URL, `"policy":{"rate":{"per_minute":0.01}}`))
	put(t, s.api, "/a", 1, 3)
	hook.Wait(1)
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+sub.ID, `{"policy":{"rate":{"per_minute":0}}}`, "Content-Type", "application/merge-patch+json")
	require.Len(t, hook.Wait(3), 3)
}

// A replay that is ending, because an endpoint takes its time, does not hold up others.
func TestReplay_DoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hang := make(chan struct{})
	var hanging atomic.Bool
	slow := hooktest.New(t, func(hooktest.Request) hooktest.Answer {
		if hanging.Load() {
			<-hang
		}
		return hooktest.Answer{}
	})
	t.Cleanup(func() { close(hang) })
	well := hooktest.New(t, nil)
	hung := subscribe(t, api, wish(slow.URL, `"id":"hung"`, `"policy":{"timeout":"45s"}`))
	quick := subscribe(t, api, wish(well.URL, `"id":"quick"`))
	put(t, api, "/a", 1, 1)
	slow.Wait(1)
	well.Wait(1)
	hanging.Store(true)
	rep, err := api.Replay(t.Context(), hung.ID, client.ReplayRequest{})
	require.NoError(t, err)
	slow.Wait(2)
	_, err = api.CancelReplay(t.Context(), hung.ID, rep.ID)
	require.NoError(t, err)
	rep, err = api.Replay(t.Context(), quick.ID, client.ReplayRequest{})
	require.NoError(t, err)
	require.Equal(t, uint64(1), ended(t, api, rep).Sent)
}

// An attempt that was under way when its subscription was deleted leaves nothing in the store.
func TestDelete_LeavesNothingInTheStore(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hang := make(chan struct{})
	var replaying atomic.Bool
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if idOf(r) == "b-1" || replaying.Load() {
			<-hang
			return hooktest.Answer{Status: http.StatusInternalServerError}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"short-lived"`, slowRetry))
	put(t, s.api, "/a", 1, 2)
	hook.Wait(2)
	statusOf(t, s.api, sub.ID, idle)
	put(t, s.api, "/b", 1, 1)
	hook.Wait(3)
	replaying.Store(true)
	rep, err := s.api.Replay(t.Context(), sub.ID, client.ReplayRequest{To: "a-1"})
	require.NoError(t, err)
	hook.Wait(4)
	require.NoError(t, s.api.DeleteSubscription(t.Context(), sub.ID))
	close(hang)
	s.stop(t)
	s = start(t, s.dir, nil)
	require.Empty(t, laneKeys(t, s, sub.ID))
	require.Empty(t, laneKeys(t, s, streams.ReplayLanes(rep.ID)))
}
