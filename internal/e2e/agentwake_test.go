package e2e_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// S0-23, S0-24, C21: the server knows endpoints, not agents, so a request to wake one says what to do instead; the endpoint of
// a subscription of mode wake starts the agent, which says with the notice's token that it works and what it has done.
func TestAgent_IsWokenByItsEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const asked = `{"target":"scope:default","on_change":"wake","wake_agent_id":"0191a2b3-0000-7000-8000-000000000001"}`
	refused := s.must(t, http.StatusUnprocessableEntity, "POST /v1/subscriptions", asked)
	require.Equal(t, "wake_not_supported", refused.field(t, "error.code"))
	require.Contains(t, refused.field(t, "error.message"), "create a subscription of mode wake with an endpoint")

	starter := hooktest.New(t, nil) // it starts the agent, and hands it the notice
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/agent-7", `{"mode":"wake","pattern":"/issues/7","endpoint":{"url":"`+starter.URL+`"}}`)
	s.marked(t, "/issues/7", "a fact about the issue of the agent")
	n := notice(t, starter.Wait(1)[0])
	require.Equal(t, "/issues/7", string(n.Primary))

	s.back(t, http.StatusOK, n, claim(n))
	s.back(t, http.StatusOK, n, s.acks(t, "/issues/7")+`,"done":true`)
	one := s.must(t, http.StatusOK, "GET /v1/subscriptions/agent-7/consumers/"+url.PathEscape("/issues/7"), "")
	require.Equal(t, "idle", one.field(t, "state"))
}
