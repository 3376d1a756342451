package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Two servers show the same problem, with its remedy and what an operator says of it; it outlives them, and is resolved when the
// endpoint works again.
func TestProblems_AreSharedAndResolved(t *testing.T) {
	t.Parallel()
	nats := natstest.Listening(t)
	on := func(c *config.Config) { c.NATS.URL = nats.ClientURL() }
	var up atomic.Bool
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Path == "/bad" && !up.Load() {
			return hooktest.Answer{Status: http.StatusServiceUnavailable, Body: "not now"}
		}
		return hooktest.Answer{}
	})
	one := start(t, t.TempDir(), on)
	two := start(t, t.TempDir(), on)
	one.subscribe(t, "good", hook.URL+"/good")
	one.must(t, http.StatusCreated, "POST /v1/subscriptions",
		`{"id":"bad","pattern":"/**","endpoint":{"url":"`+hook.URL+`/bad"},"policy":{"retry":{"preset":"custom","steps":["1s"],"max_attempts":100}}}`)
	for i := range 5 {
		one.marked(t, fmt.Sprintf("/a/%d", i), "x")
	}
	problem := func(s *running, state sluice.ProblemState) func() bool {
		return func() bool {
			page, err := s.api.Problems(t.Context(), client.ProblemsQuery{State: state, Subscription: "bad"})
			require.NoError(t, err)
			return len(page.Problems) == 1 && page.Counts[state] == 1
		}
	}
	eventually(t, problem(one, sluice.ProblemOpen), "the first")
	eventually(t, problem(two, sluice.ProblemOpen), "the second")
	p, err := two.api.Problem(t.Context(), "bad.http_5xx")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.Equal(t, "not now", p.Answer)
	require.Contains(t, p.Sentence, "status 503")
	require.Contains(t, p.Acts, sluice.ActPause)
	require.Positive(t, p.Events)
	note := "they are told"
	p, err = two.api.ChangeProblem(t.Context(), p.ID, sluice.ProblemChange{State: sluice.ProblemAcknowledged, Note: &note})
	require.NoError(t, err)
	require.Equal(t, note, p.Note)
	require.Equal(t, "root", p.ChangedBy)
	require.Contains(t, one.must(t, http.StatusOK, "GET /v1/audit?action=problem.change", "").text, "they are told")
	stranger := one.grant(t, "user:stranger", "scope:default", "read")
	require.Contains(t, one.must(t, http.StatusOK, "GET /v1/problems", "", as(stranger.token)...).text, `"problems":[]`)
	one.must(t, http.StatusNotFound, "PATCH /v1/problems/bad.http_5xx", `{"state":"ignored"}`, as(stranger.token)...)
	one.must(t, http.StatusNotFound, "GET /v1/problems/bad.http_5xx", "", as(stranger.token)...)
	one.must(t, http.StatusNotFound, "GET /v1/problems/bad.dns", "")
	one.must(t, http.StatusBadRequest, "GET /v1/problems?state=closed", "")

	one.stop(t)
	two.stop(t)
	three := start(t, t.TempDir(), on)
	eventually(t, problem(three, sluice.ProblemAcknowledged), "it outlives the servers")
	eventually(t, func() bool {
		p, err := three.api.Problem(t.Context(), "bad.http_5xx")
		require.NoError(t, err)
		return slices.Contains(p.Acts, sluice.ActProbe) && p.Events == 5
	}, "the breaker opens")
	up.Store(true)
	resolved := problem(three, sluice.ProblemResolved)
	eventually(t, func() bool {
		_, err := three.api.ProbeSubscription(t.Context(), "bad")
		return err == nil && resolved()
	}, "the endpoint works again")
}
