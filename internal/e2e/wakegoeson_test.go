package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
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
		return s.consumer(t, "/agents/idle", "state") == "idle" && s.consumer(t, "/agents/failing", "failures") != 0.0 && s.consumer(t, "/agents/live", "state") == "live"
	}, "all are where they are to be")
	require.Equal(t, "waking", s.consumer(t, "/agents/hanging", "state"))
	for _, path := range []string{"/agents/failing", "/agents/hanging"} { // the next time
		hook.says(path, "done")
	}
}

// goesOn checks that every consumer goes on where it was: a cycle that lasts has the same wake, and its token is good.
func (s *running) goesOn(t *testing.T, hook *wakeHook) {
	t.Helper()
	s.finishes(t, hook)
	s.wakesAgain(t, hook)
}

// finishes checks that the cycles that last come to their end.
func (s *running) finishes(t *testing.T, hook *wakeHook) {
	t.Helper()
	n := hook.wait(t, "/agents/live", 1)
	require.Equal(t, "live", s.consumer(t, "/agents/live", "state"))
	require.Len(t, hook.of("/agents/live"), 1)
	s.back(t, http.StatusOK, n, s.acks(t, "/agents/live")+`,"done":true`)
	require.Equal(t, "idle", s.consumer(t, "/agents/live", "state"))
	for _, path := range []string{"/agents/failing", "/agents/hanging"} {
		first := hook.wait(t, path, 1)
		next := hook.wait(t, path, 2)
		require.Equal(t, []any{first.WakeID, uint64(1)}, []any{next.WakeID, next.Epoch}, path)
		eventually(t, func() bool { return s.consumer(t, path, "state") == "idle" }, path+" comes to rest")
		require.Equal(t, any(1.0), s.consumer(t, path, "epoch"), path)
	}
}

// A restart of the server, in order or not, is none of a wake consumer's business (issue 5, "Restart").
func TestWake_SurvivesARestart(t *testing.T) {
	t.Parallel()
	hook, dir := newWakeHook(t), t.TempDir()
	s := start(t, dir, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, slowly))
	s.inAllStates(t, hook)
	s.stop(t)
	s = start(t, dir, nil)
	s.goesOn(t, hook)
}

// NATS may be away in any state of a consumer. An event that is appended when it is back wakes.
func TestWake_SurvivesAnOutageOfNATS(t *testing.T) {
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
func TestWake_IsTakenOverFromAKilledServer(t *testing.T) {
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
	live := hook.wait(t, "/agents/live", 1)
	other.back(t, http.StatusOK, live, claim(live)) // its worker may be silent for 45 seconds (S1-43)
	killed.kill(t)
	other.news(t, "/agents/new") // while no server serves the subscription
	began := time.Now()
	patiently(t, func() bool { return other.wakesOf(t) }, "the other serves it")
	t.Logf("taken over after %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, uint64(1), hook.wait(t, "/agents/new", 1).Epoch)
	other.goesOn(t, hook)
}

// Any replica takes any callback, and what it brings about happens at the one that serves the subscription.
func TestWake_AnyReplicaTakesCallbacks(t *testing.T) {
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
