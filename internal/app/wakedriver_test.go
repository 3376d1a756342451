package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/hooktest"
	"github.com/sluice-io/sluice/internal/natstest"
	"github.com/sluice-io/sluice/internal/wake"
)

// wakeHook is whom notices wake: each stream is answered as it is told.
type wakeHook struct {
	URL string

	over chan struct{}

	mu      sync.Mutex
	answers map[string]string // by primary stream: "done", "fail", "hang"; "" is a plain 200
	heard   []wake.Notice
	cut     int // requests whose sender gave up
}

func newWakeHook(t *testing.T) *wakeHook {
	t.Helper()
	h := &wakeHook{over: make(chan struct{}), answers: map[string]string{}}
	server := httptest.NewServer(h)
	h.URL = server.URL
	t.Cleanup(func() {
		close(h.over)
		server.CloseClientConnections()
		server.Close()
	})
	return h
}

// ServeHTTP takes a notice.
func (h *wakeHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n wake.Notice
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.heard = append(h.heard, n)
	answer := h.answers[string(n.Primary)]
	h.mu.Unlock()
	switch answer {
	case "done":
		_, _ = w.Write([]byte(`{"done":true}`))
	case "fail":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "hang":
		select {
		case <-r.Context().Done():
			h.mu.Lock()
			h.cut++
			h.mu.Unlock()
		case <-h.over:
		}
	}
}

// says sets how a stream's notices are answered from now on.
func (h *wakeHook) says(path, answer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// of returns the notices of a stream.
func (h *wakeHook) of(path string) (all []wake.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.heard {
		if string(n.Primary) == path {
			all = append(all, n)
		}
	}
	return all
}

func (h *wakeHook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.heard)
}

func (h *wakeHook) cutOff() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut
}

// wait returns the n-th notice of a stream as soon as it is there.
func (h *wakeHook) wait(t *testing.T, path string, n int) wake.Notice {
	t.Helper()
	patiently(t, func() bool { return len(h.of(path)) >= n }, fmt.Sprintf("notice %d of %s", n, path))
	return h.of(path)[n-1]
}

// epoch returns the first notice of an epoch of a stream as soon as it is there.
func (h *wakeHook) epoch(t *testing.T, path string, epoch uint64) (found wake.Notice) {
	t.Helper()
	patiently(t, func() bool {
		for _, n := range h.of(path) {
			if n.Epoch == epoch {
				found = n
				return true
			}
		}
		return false
	}, fmt.Sprintf("epoch %d of %s", epoch, path))
	return found
}

// agents is a subscription of mode wake.
func agents(url string, more ...string) string {
	return `{` + strings.Join(append([]string{`"id":"agents","mode":"wake","pattern":"/agents/*","endpoint":{"url":"` + url + `"}`}, more...), ",") + `}`
}

// news appends to a stream, which is made if it is not there.
func (s *running) news(t *testing.T, path string) {
	t.Helper()
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":%q,"type":"t","data":1}`, path))
}

// back makes a callback.
func (s *running) back(t *testing.T, status int, n wake.Notice, body string) reply {
	t.Helper()
	return s.calls(t, status, n, n.Token, fmt.Sprintf(`{"epoch":%d,%s}`, n.Epoch, body))
}

func claim(n wake.Notice) string { return `"wake_id":"` + n.WakeID + `"` }

// acks acknowledges all that a stream has.
func (s *running) acks(t *testing.T, path string) string {
	t.Helper()
	offset := s.must(t, http.StatusOK, "HEAD "+durableAt+path, "").header.Get("Stream-Next-Offset")
	require.NotEmpty(t, offset)
	return fmt.Sprintf(`"acks":[{"path":%q,"offset":%q}]`, path, offset)
}

// consumer returns a member of a wake consumer.
func (s *running) consumer(t *testing.T, path, field string) any {
	t.Helper()
	return s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers/"+strings.ReplaceAll(path, "/", "%2F"), "").field(t, field)
}

// wakesOf reports whether the server runs the clocks of the subscription.
func (s *running) wakesOf(t *testing.T) bool {
	t.Helper()
	return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, `sluice_wake_notices_in_flight{namespace="default",subscription="agents"}`)
}

// slowly is a policy whose first retry leaves time for something else.
const slowly = `"policy":{"retry":{"preset":"custom","steps":["3s","200ms"],"max_attempts":100}}`

// inAllStates brings a consumer into each of the states: idle, waking between two attempts, waking with a request under way,
// and live.
func (s *running) inAllStates(t *testing.T, hook *wakeHook) {
	t.Helper()
	for path, answer := range map[string]string{"/agents/idle": "done", "/agents/failing": "fail", "/agents/hanging": "hang", "/agents/live": ""} {
		hook.says(path, answer)
		s.news(t, path)
		hook.wait(t, path, 1)
	}
	n := hook.wait(t, "/agents/live", 1)
	s.back(t, http.StatusOK, n, claim(n))
	eventually(t, func() bool {
		return s.consumer(t, "/agents/idle", "state") == "idle" && s.consumer(t, "/agents/failing", "failures") == 1.0 && s.consumer(t, "/agents/live", "state") == "live"
	}, "all are where they are to be")
	require.Equal(t, "waking", s.consumer(t, "/agents/hanging", "state"))
	for _, path := range []string{"/agents/failing", "/agents/hanging"} { // the next time
		hook.says(path, "done")
	}
}

// goesOn checks that every consumer goes on where it was: a cycle that lasts has the same wake, and its token is good.
func (s *running) goesOn(t *testing.T, hook *wakeHook) {
	t.Helper()
	for _, path := range []string{"/agents/failing", "/agents/hanging"} {
		first := hook.wait(t, path, 1)
		next := hook.wait(t, path, 2)
		require.Equal(t, []any{first.WakeID, uint64(1)}, []any{next.WakeID, next.Epoch}, path)
		eventually(t, func() bool { return s.consumer(t, path, "state") == "idle" }, path+" comes to rest")
		require.Equal(t, 1.0, s.consumer(t, path, "epoch"), path)
	}
	n := hook.wait(t, "/agents/live", 1)
	require.Equal(t, "live", s.consumer(t, "/agents/live", "state"))
	require.Len(t, hook.of("/agents/live"), 1)
	s.back(t, http.StatusOK, n, s.acks(t, "/agents/live")+`,"done":true`)
	require.Equal(t, "idle", s.consumer(t, "/agents/live", "state"))
	for _, path := range []string{"/agents/idle", "/agents/failing", "/agents/hanging", "/agents/live"} {
		hook.says(path, "done")
		s.news(t, path)
		require.NotEqual(t, hook.of(path)[0].WakeID, hook.epoch(t, path, 2).WakeID)
	}
}

// A restart of the server, in order or not, is none of a wake consumer's business (issue 5, "Restart").
func TestWakesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	hook, dir := newWakeHook(t), t.TempDir()
	s := start(t, dir, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, slowly))
	s.inAllStates(t, hook)
	s.stop(t)
	s = start(t, dir, nil)
	s.goesOn(t, hook)
}

// NATS may be away whatever a consumer's state is. What is appended when it is back wakes.
func TestWakesGoOnWhenNATSIsBack(t *testing.T) {
	t.Parallel()
	hook, far := newWakeHook(t), natstest.Listening(t)
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = far.ClientURL() })
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, slowly))
	s.inAllStates(t, hook)
	far.Stop(t)
	n := hook.wait(t, "/agents/live", 1)
	refused := s.back(t, http.StatusServiceUnavailable, n, claim(n))
	require.Equal(t, false, refused.field(t, "ok"))
	far.Start(t)
	patiently(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusOK }, "it is ready again")
	s.goesOn(t, hook)
}

// A server that is killed loses no wake: the other takes over, with the same wake while the cycle lasts (issue 5, "Replicas").
func TestAKilledServersWakesAreTakenOver(t *testing.T) {
	t.Parallel()
	hook, far := newWakeHook(t), natstest.Listening(t)
	killed, owner := replica(t, far.ClientURL(), "2s")
	owner.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, slowly))
	owner.inAllStates(t, hook)
	spare, other := replica(t, far.ClientURL(), "2s")
	eventually(t, func() bool { return owner.wakesOf(t) != other.wakesOf(t) }, "one serves it")
	if other.wakesOf(t) {
		killed, owner, other = spare, other, owner
	}
	killed.kill(t)
	other.news(t, "/agents/new") // while nobody serves the subscription
	began := time.Now()
	patiently(t, func() bool { return other.wakesOf(t) }, "the other serves it")
	t.Logf("taken over after %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, uint64(1), hook.wait(t, "/agents/new", 1).Epoch)
	other.goesOn(t, hook)
}

// Any replica takes any callback, and what it brings about happens at the one that serves the subscription.
func TestAnyReplicaTakesAnyCallback(t *testing.T) {
	t.Parallel()
	hook, far := newWakeHook(t), natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = far.ClientURL() }
	owner, other := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	owner.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	eventually(t, func() bool { return owner.wakesOf(t) != other.wakesOf(t) }, "one serves it")
	if other.wakesOf(t) {
		owner, other = other, owner
	}
	owner.news(t, "/agents/a")
	first := hook.wait(t, "/agents/a", 1)
	other.back(t, http.StatusOK, first, claim(first))
	require.Equal(t, "live", owner.consumer(t, "/agents/a", "state"))
	other.back(t, http.StatusOK, first, `"done":true`) // nothing is acknowledged: it is woken again
	second := hook.epoch(t, "/agents/a", 2)
	other.back(t, http.StatusOK, second, claim(second)+`,"subscribe":["/elsewhere/x"],`+other.acks(t, "/agents/a"))
	other.back(t, http.StatusOK, second, `"done":true`)
	require.Equal(t, "idle", owner.consumer(t, "/agents/a", "state"))
	other.news(t, "/elsewhere/x")
	third := hook.epoch(t, "/agents/a", 3)
	require.Equal(t, "/elsewhere/x", string(third.TriggeredBy[0]))
	require.Len(t, third.Streams, 2)
	other.back(t, http.StatusOK, third, claim(third))
	owner.back(t, http.StatusConflict, third, `"wake_id":"w_other"`)
	other.must(t, http.StatusNoContent, "DELETE "+durableAt+"/agents/a", "")
	require.Equal(t, "CONSUMER_GONE", owner.back(t, http.StatusGone, third, claim(third)).field(t, "error.code"))
	other.back(t, http.StatusGone, third, claim(third))
	for _, s := range []*running{owner, other} {
		eventually(t, func() bool {
			list, _ := s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers", "").field(t, "consumers").([]any)
			return len(list) == 0
		}, "it is gone")
	}
	owner.news(t, "/agents/a") // it comes back, and its epoch goes on
	require.Equal(t, uint64(4), hook.wait(t, "/agents/a", 4).Epoch)
}

// Whatever a consumer's state is when its owner's access is lost: nothing is sent after that was acknowledged, the
// subscription is cancelled, and callbacks are gone.
func TestNobodyIsWokenAfterALossOfAccessIsAcknowledged(t *testing.T) { // S0-57…64
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

// What the owner may not see of is in no notice and in no answer, and wakes nobody; when it may, it does.
func TestWhatTheOwnerMayNotSeeWakesNobody(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	g := s.grant(t, "user:ann", "path:default/agents/*", "subscribe")
	s.made(t, g.token, agents(hook.URL, quick))
	s.news(t, "/hidden/x")
	s.news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	answer := s.back(t, http.StatusOK, n, claim(n)+`,"subscribe":["/hidden/x","/agents/b"]`)
	require.NotContains(t, answer.text, "hidden")
	require.Contains(t, answer.text, "/agents/b")
	require.Equal(t, "INVALID_OFFSET", s.back(t, http.StatusConflict, n, s.acks(t, "/hidden/x")).field(t, "error.code"))
	require.NotContains(t, s.back(t, http.StatusOK, n, s.acks(t, "/agents/a")+`,"done":true`).text, "hidden")
	require.Equal(t, "idle", s.consumer(t, "/agents/a", "state"))
	s.news(t, "/hidden/x")
	s.news(t, "/agents/b") // it follows that one as well
	second := hook.epoch(t, "/agents/a", 2)
	require.Len(t, second.Streams, 2)
	require.Equal(t, "/agents/b", string(second.TriggeredBy[0]))
	require.Len(t, second.TriggeredBy, 1)
	require.Len(t, hook.of("/agents/a"), 2)
}

// What was erased is no reason to wake anybody any more.
func TestWhatIsErasedWakesNobodyAnyMore(t *testing.T) {
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

// A subscription that is paused wakes nobody and takes callbacks; what came meanwhile wakes when it goes on.
func TestAPausedSubscriptionWakesNobody(t *testing.T) {
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
func TestASubscriptionIsDeletedInTheMiddleOfWakes(t *testing.T) {
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

// Whatever is sent as a callback is answered as S1 says, and does no harm.
func TestCallbacksThatAreNoneAreRefused(t *testing.T) { // S1-71, S1-85…91
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst = 0 })
	hook := newWakeHook(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	s.news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	at := "POST /callback/default/"
	for line, want := range map[string]string{
		at + ":%2Fagents%2Fa":                  "CONSUMER_GONE",
		at + "agents":                          "CONSUMER_GONE",
		at + "agents:":                         "CONSUMER_GONE",
		at + "agents:%2F":                      "CONSUMER_GONE",
		at + "*:%2Fagents%2Fa":                 "CONSUMER_GONE",
		at + "agents%3E:%2Fagents%2Fa":         "CONSUMER_GONE",
		at + "agents:%2Fagents%2Fb":            "CONSUMER_GONE",
		at + "agents:%252Fagents%252Fa":        "CONSUMER_GONE",
		at + "none:%2Fagents%2Fa":              "CONSUMER_GONE",
		"POST /callback/other/" + n.ConsumerID: "CONSUMER_GONE",
	} {
		r := s.must(t, http.StatusGone, line, `{"epoch":1}`, as(n.Token)...)
		require.Equal(t, want, r.field(t, "error.code"), line)
	}
	for body, want := range map[string]int{
		``: 400, `null`: 400, `[]`: 400, `"x"`: 400, `{}`: 400, `{"epoch":-1}`: 400, `{"epoch":1.5}`: 400, `{"epoch":"1"}`: 400, `{"epoch":1}{}`: 400,
		`{"epoch":1,"subscribe":["x"]}`: 400, `{"epoch":1,"unsubscribe":[7]}`: 400,
		`{"epoch":1,"acks":{}}`: 400, `{"epoch":1,"done":"yes"}`: 400, `{"epoch":18446744073709551615}`: 409, `{"epoch":18446744073709551616}`: 400,
		`{"epoch":1,"acks":[{"path":"/agents/a","offset":"99999999999999999999"}]}`: 409,
		`{"epoch":1,"acks":[{"path":"/agents/none","offset":"-1"}]}`:                409,
		`{"epoch":1,"acks":[{"path":"nonsense","offset":"-1"}]}`:                    409,
		`{"epoch":1,"wake_id":"w_"}`:                                                409,
	} {
		r := s.calls(t, want, n, n.Token, body)
		require.Equal(t, false, r.field(t, "ok"), body)
	}
	for _, token := range []string{"", "x", "a.b.c", n.Token + "x", n.Token[:len(n.Token)-4], strings.ToUpper(n.Token)} {
		require.Equal(t, "TOKEN_INVALID", s.calls(t, http.StatusUnauthorized, n, token, `{"epoch":1}`).field(t, "error.code"), token)
	}
	require.Equal(t, []any{"live", 1.0}, []any{s.consumer(t, "/agents/a", "state"), s.consumer(t, "/agents/a", "epoch")}, "it was answered 200, and nothing else happened")
}

// Callbacks of one consumer at once are taken one after the other; each of them is answered.
func TestManyCallbacksOfOneConsumerAreAllAnswered(t *testing.T) {
	t.Parallel()
	far := natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = far.ClientURL() }
	servers := []*running{start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)}
	hook := newWakeHook(t)
	servers[0].must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	servers[0].news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	const many = 64
	var calls sync.WaitGroup
	statuses := make([]int, many)
	for i := range many {
		calls.Go(func() {
			body := fmt.Sprintf(`{"epoch":1,%s,"subscribe":["/other/%d"]}`, claim(n), i)
			statuses[i] = servers[i%2].call(t, "POST "+strings.TrimPrefix(strings.TrimPrefix(n.Callback, servers[0].at.HTTP), servers[1].at.HTTP), body, as(n.Token)...).status
		})
	}
	calls.Wait()
	for i, status := range statuses {
		require.Equal(t, http.StatusOK, status, i)
	}
	require.Len(t, servers[0].consumer(t, "/agents/a", "streams"), many+1)
}

// An endpoint that hangs, with a thousand consumers to wake, does not hold up another subscription.
func TestAHangingEndpointDelaysNoOtherWakes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Webhooks.MaxInFlight = 64 })
	hanging, other := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} }), newWakeHook(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hanging.URL, `"policy":{"window":1000}`))
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"fine","mode":"wake","pattern":"/fine/*","endpoint":{"url":"`+other.URL+`"}}`)
	js := dial(t, s.at.NATS, nats.MaxReconnects(-1))
	const consumers = 1000
	for i := range consumers {
		_, err := js.PublishAsync(fmt.Sprintf("events.default.agents.a%d", i), []byte(`{}`))
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	hanging.Wait(32)
	eventually(t, func() bool {
		waking, _ := s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/status", "").field(t, "consumers.waking").(float64)
		return waking == consumers
	}, "all are to be woken")
	slowest := time.Duration(0)
	for i := range 20 {
		path := fmt.Sprintf("/fine/%d", i)
		began := time.Now()
		s.news(t, path)
		other.wait(t, path, 1)
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("while %d consumers of an endpoint that hangs are to be woken, another one's wake takes %s at most", consumers, slowest)
	require.Less(t, len(hanging.Requests()), consumers, "it does hang")
}
