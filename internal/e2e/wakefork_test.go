package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fork without a message of its own ends where what it inherited does: from there it is subscribed to, and up to there it can
// be acknowledged (S1-18, S1-97, S1-89).
func TestWake_ForkIsFollowedFromItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := newWakeHook(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL))
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/talk", "one", text()...)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/copy", "", append(text(), "Stream-Forked-From", "/talk")...)
	end := s.must(t, http.StatusOK, "HEAD "+durableAt+"/copy", "").header.Get("Stream-Next-Offset")
	s.news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	answer := s.back(t, http.StatusOK, n, claim(n)+`,"subscribe":["/copy"]`)
	require.Contains(t, answer.text, `{"path":"/copy","offset":"`+end+`"}`)
	s.back(t, http.StatusOK, n, s.acks(t, "/copy"))
	s.back(t, http.StatusOK, n, s.acks(t, "/agents/a")+`,"done":true`)
	require.Equal(t, "idle", s.consumer(t, "/agents/a", "state"))
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/copy", "two", text()...)
	require.Equal(t, "/copy", string(hook.epoch(t, "/agents/a", 2).TriggeredBy[0]))
}
