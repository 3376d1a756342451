package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// In any state of a consumer when its owner's access is lost: nothing is sent after that was acknowledged, the
// subscription is cancelled, and callbacks are gone.
func TestWake_NoneAfterAccessLossIsAcknowledged(t *testing.T) { // S0-57…64
	t.Parallel()
	for how, revoke := range revocations() {
		for when, answer := range map[string]string{"between two attempts": "fail", "while a notice is under way": "hang", "while it is live": ""} {
			if how != "the grant is revoked" && when == "while it is live" {
				continue // the same as between two attempts
			}
			t.Run(how+" "+when, func(t *testing.T) {
				t.Parallel()
				s := start(t, t.TempDir(), nil)
				s.listed(t)
				hook, clock := newWakeHook(t), newWakeHook(t)
				clock.says("/clock", "fail")
				hook.says("/agents/a", answer)
				g := s.grant(t, "user:ann", "scope:default", "subscribe")
				s.made(t, g.token, agents(hook.URL, quick))
				s.made(t, s.token, `{"id":"clock","mode":"wake","pattern":"/clock","endpoint":{"url":"`+clock.URL+`"},`+quick+`}`)
				s.news(t, "/agents/a")
				n := hook.wait(t, "/agents/a", 1)
				if answer == "" {
					s.back(t, http.StatusOK, n, claim(n))
				}
				revoke(t, s, g)
				sent := hook.count()
				if answer == "hang" {
					eventually(t, func() bool { return hook.cutOff() == 1 }, "what is under way is cut off")
				}
				s.news(t, "/agents/a")
				s.news(t, "/agents/b")
				s.news(t, "/clock")
				clock.wait(t, "/clock", 10) // so often it would have been tried again
				require.LessOrEqual(t, hook.count(), sent+inKernel, "nothing but what was on the wire")
				require.Empty(t, hook.of("/agents/b"))
				settled := hook.count()
				require.Equal(t, "CONSUMER_GONE", s.back(t, http.StatusGone, n, claim(n)).field(t, "error.code"))
				eventually(t, func() bool { return s.stateOf(t, "agents") == "cancelled access_revoked" }, "it ends")
				s.back(t, http.StatusGone, n, claim(n))
				require.Equal(t, settled, hook.count())
			})
		}
	}
}

// A revocation through the server that does not serve the subscription stops what the other one sends before it is
// acknowledged.
func TestWake_AccessLossReachesTheServingReplica(t *testing.T) {
	t.Parallel()
	hook, far := newWakeHook(t), natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = far.ClientURL() }
	owner, other := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	g := owner.grant(t, "user:ann", "scope:default", "subscribe")
	owner.made(t, g.token, agents(hook.URL, quick))
	eventually(t, func() bool { return owner.wakesOf(t) != other.wakesOf(t) }, "one serves it")
	if other.wakesOf(t) {
		owner, other = other, owner
	}
	hook.says("/agents/failing", "fail")
	hook.says("/agents/hanging", "hang")
	for _, path := range []string{"/agents/failing", "/agents/hanging", "/agents/live"} {
		owner.news(t, path)
	}
	hook.wait(t, "/agents/hanging", 1)
	n := hook.wait(t, "/agents/live", 1)
	hook.wait(t, "/agents/failing", 2)
	other.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	sent := hook.count()
	eventually(t, func() bool { return hook.cutOff() == len(hook.of("/agents/hanging")) }, "what is under way is cut off, also what was before the subscription moved")
	for _, s := range []*running{owner, other} {
		require.Equal(t, "CONSUMER_GONE", s.back(t, http.StatusGone, n, claim(n)).field(t, "error.code"))
	}
	owner.news(t, "/agents/new")
	eventually(t, func() bool { return owner.stateOf(t, "agents") == "cancelled access_revoked" }, "it ends")
	eventually(t, func() bool { return !owner.wakesOf(t) && !other.wakesOf(t) }, "it is not served any more")
	require.LessOrEqual(t, hook.count(), sent+inKernel)
	require.Empty(t, hook.of("/agents/new"))
}

// A stream that the owner may not see is in no notice and in no answer, and does not wake; when the owner may, it does.
func TestWake_HiddenStreamsDoNotWake(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	g := s.grant(t, "user:ann", "path:default/agents/*", "subscribe")
	s.made(t, g.token, agents(hook.URL, quick))
	s.news(t, "/hidden/x")
	s.news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	answer := s.back(t, http.StatusOK, n, claim(n)+`,"subscribe":["/hidden/x","/agents/b"]`)
	require.NotContains(t, answer.text, "/hidden/")
	require.Contains(t, answer.text, "/agents/b")
	require.NotContains(t, s.back(t, http.StatusOK, n, s.acks(t, "/hidden/x")).text, "/hidden/")
	require.NotContains(t, s.back(t, http.StatusOK, n, s.acks(t, "/agents/a")+`,"done":true`).text, "/hidden/")
	require.Equal(t, "idle", s.consumer(t, "/agents/a", "state"))
	s.news(t, "/hidden/x")
	s.news(t, "/agents/b") // it follows that one as well
	second := hook.epoch(t, "/agents/a", 2)
	require.Len(t, second.Streams, 2)
	require.Equal(t, "/agents/b", string(second.TriggeredBy[0]))
	require.Len(t, second.TriggeredBy, 1)
	require.Len(t, hook.of("/agents/a"), 2)
}

// Issue 13, attack 10: an event whose own label the owner is not cleared for does not wake; neither its stream nor its place is in
// a notice, in an answer, or in a list. What came before it wakes.
func TestWake_RespectsTheLabelOfAnEvent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	g := s.grant(t, "user:ann", "scope:default", "subscribe read")
	s.labelled(t, "/agents/old", "h0", "SECRET", `0`)
	s.made(t, g.token, agents(hook.URL, quick))
	s.labelled(t, "/agents/hidden", "h1", "SECRET", `1`)
	s.news(t, "/agents/a")
	s.labelled(t, "/agents/a", "h2", "SECRET", `2`)
	n := hook.wait(t, "/agents/a", 1)
	require.Equal(t, 1, hook.count(), "earlier events do not wake")
	answer := s.back(t, http.StatusOK, n, claim(n)+`,"subscribe":["/agents/hidden","/agents/nothing"]`)
	offsets := map[string]any{}
	for _, stream := range answer.field(t, "streams").([]any) {
		one, _ := stream.(map[string]any)
		path, _ := one["path"].(string)
		offsets[path] = one["offset"]
	}
	require.Equal(t, offsets["/agents/nothing"], offsets["/agents/hidden"], "it is as if there were none")
	again := s.back(t, http.StatusOK, n, s.acks(t, "/agents/hidden"))
	require.Equal(t, answer.field(t, "streams"), again.field(t, "streams"), "nothing of it is acknowledged")
	s.back(t, http.StatusOK, n, s.acks(t, "/agents/a")+`,"done":true`) // readers are told where a stream ends
	list := s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers", "", as(g.token)...)
	require.NotContains(t, list.text, "agents:%2Fagents%2Fhidden")
	require.NotContains(t, list.text, "/agents/old")
	require.Equal(t, "idle", s.consumer(t, "/agents/a", "state"))
	s.labelled(t, "/agents/a", "h3", "SECRET", `3`)
	s.labelled(t, "/agents/hidden", "h4", "SECRET", `4`) // which the consumer of /agents/a follows
	s.news(t, "/agents/b")
	hook.wait(t, "/agents/b", 1)
	require.Len(t, hook.of("/agents/a"), 1)
	require.Empty(t, hook.of("/agents/hidden"))
}

// An erased event is no reason for a wake any more.
func TestWake_ErasedEventsDoNotWake(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	hook.says("/agents/a", "fail")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	s.news(t, "/agents/a")
	hook.wait(t, "/agents/a", 2)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/agents/a"}`)
	eventually(t, func() bool { return s.consumer(t, "/agents/a", "state") == "idle" }, "there is nothing to tell")
	hook.says("/agents/a", "done")
	s.news(t, "/agents/a")
	require.Equal(t, "/agents/a", string(hook.epoch(t, "/agents/a", 2).TriggeredBy[0]))
}

// A paused subscription sends no wake and takes callbacks; events of the pause wake when it resumes.
func TestWake_PausedSubscriptionDoesNotWake(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	hook.says("/agents/failing", "fail")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	s.news(t, "/agents/live")
	s.news(t, "/agents/failing")
	n := hook.wait(t, "/agents/live", 1)
	s.back(t, http.StatusOK, n, claim(n))
	failing := hook.wait(t, "/agents/failing", 2)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/agents/pause", "")
	eventually(t, func() bool { return !s.wakesOf(t) }, "it is not served any more")
	sent := hook.count()
	s.news(t, "/agents/new")
	s.back(t, http.StatusOK, n, `"done":true`)
	require.Equal(t, "waking", s.consumer(t, "/agents/live", "state"))
	require.Equal(t, sent, hook.count())
	hook.says("/agents/failing", "done")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/agents/resume", "")
	require.Equal(t, uint64(2), hook.wait(t, "/agents/live", 2).Epoch)
	hook.wait(t, "/agents/new", 1)
	eventually(t, func() bool { return s.consumer(t, "/agents/failing", "state") == "idle" }, "what failed is tried again")
	last := hook.of("/agents/failing")
	require.Equal(t, failing.WakeID, last[len(last)-1].WakeID)
}

// A subscription may be deleted while notices and callbacks are under way. One of the same id begins anew, but for the
// epochs: what was told of the old one is good for nothing (S1-114, S1-128).
func TestWake_SubscriptionMayBeDeletedMidCycle(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	seen := map[string]string{}
	last := uint64(0)
	for round := range 3 {
		hook.says("/agents/hanging", "hang")
		hook.says("/agents/failing", "fail")
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
		before := len(hook.of("/agents/live"))
		for _, path := range []string{"/agents/hanging", "/agents/failing", "/agents/live"} {
			s.news(t, path)
		}
		n := hook.wait(t, "/agents/live", before+1)
		require.Greater(t, n.Epoch, last, "epochs go on")
		last = n.Epoch
		hook.wait(t, "/agents/hanging", round+1)
		var calls sync.WaitGroup
		answers := make(chan int, 8)
		for range 8 {
			calls.Go(func() {
				answers <- s.call(t, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), fmt.Sprintf(`{"epoch":%d,%s}`, n.Epoch, claim(n)), as(n.Token)...).status
			})
		}
		s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/agents", "")
		calls.Wait()
		for range 8 {
			require.Contains(t, []int{http.StatusOK, http.StatusGone}, <-answers)
		}
		s.back(t, http.StatusGone, n, claim(n))
		eventually(t, func() bool { return hook.cutOff() == round+1 }, "what is under way ends")
		sent := hook.count()
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, `"enabled":true`))
		s.call(t, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), fmt.Sprintf(`{"epoch":%d,%s}`, n.Epoch, claim(n)), as(n.Token)...)
		hook.says("/agents/live", "")
		s.news(t, "/agents/live")
		next := hook.wait(t, "/agents/live", before+2)
		require.Greater(t, next.Epoch, last)
		last = next.Epoch
		for _, status := range []int{
			s.call(t, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), fmt.Sprintf(`{"epoch":%d,%s}`, next.Epoch, claim(next)), as(n.Token)...).status,
		} {
			require.Equal(t, http.StatusUnauthorized, status, "an old token is not good for the new one")
		}
		refused := s.back(t, http.StatusUnauthorized, n, claim(n))
		require.Equal(t, "TOKEN_INVALID", refused.field(t, "error.code"), "not TOKEN_EXPIRED, after which a worker goes on")
		require.NotContains(t, refused.text, n.Token)
		s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/agents", "")
		require.LessOrEqual(t, hook.count(), sent+8)
	}
	for _, n := range hook.heard {
		key := fmt.Sprint(n.Primary, n.Epoch)
		if seen[key] == "" {
			seen[key] = n.WakeID
		}
		require.Equal(t, seen[key], n.WakeID, "an epoch has one wake: %s", key)
	}
}
