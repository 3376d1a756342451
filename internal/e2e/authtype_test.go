package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S4-13, issue 13 attack 8: an agent that gives a part of its grant to the name of a user stays an agent in what is
// published under it, whichever way that goes, and cannot name a system.
func TestAuthType_OfAnAgentsChainIsAgent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const ns = "/v1/namespaces/default"
	bot := s.grant(t, "ai_agent:bot", "scope:default", "read publish subscribe")
	fake := s.grant(t, "user:ann", "scope:default", "read publish subscribe", bot.token)
	s.must(t, http.StatusForbidden, "POST /v1/grants", fmt.Sprintf(`{"principal":"system:root","object":"scope:default","verbs":["publish"],"expires_at":%q}`,
		deadline.Format(time.RFC3339)), as(bot.token)...)
	sync := s.grant(t, "system:sync", "scope:default", "publish")

	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"pattern":"/x/*","endpoint":{"url":"`+hook.URL+`"},"policy":{"envelope":"attempt"}}`)
	s.must(t, http.StatusCreated, "PUT "+ns+"/watches/w", `{"pattern":"/x/published","action":{"path":"/x/watched","type":"t"}}`, as(fake.token)...)
	s.must(t, http.StatusCreated, "PUT /streams/default/x/appended", ``, append(as(fake.token), "Content-Type", "application/json")...)
	s.must(t, http.StatusCreated, "PUT /streams/default/x/woken", ``, append(as(fake.token), "Content-Type", "application/json")...)
	s.must(t, http.StatusCreated, "PUT /streams/default/__ds/subscriptions/p",
		`{"type":"pull-wake","streams":["x/appended"],"wake_stream":"x/woken"}`, as(fake.token)...)
	s.must(t, http.StatusCreated, "POST "+ns+"/events", `{"path":"/x/published","type":"t"}`, as(fake.token)...)
	s.must(t, http.StatusNoContent, "POST /streams/default/x/appended", `{}`, append(as(fake.token), "Content-Type", "application/json")...)
	soon := in(10 * time.Second) // later than the response, also on a busy machine
	s.must(t, http.StatusAccepted, "POST "+ns+"/events", `{"path":"/x/scheduled","type":"t","deliver_at":"`+soon+`"}`, as(fake.token)...)
	s.must(t, http.StatusCreated, "PUT "+ns+"/appointments/a", `{"at":"`+soon+`","action":{"path":"/x/appointed","type":"t"}}`, as(fake.token)...)
	s.must(t, http.StatusCreated, "POST "+ns+"/events", `{"path":"/x/system","type":"t"}`, as(sync.token)...)

	want := map[string]string{
		"/x/published": "ai_agent", "/x/watched": "ai_agent", "/x/appended": "ai_agent", "/x/woken": "ai_agent",
		"/x/scheduled": "ai_agent", "/x/appointed": "ai_agent", "/x/system": "system",
	}
	got := map[string]string{}
	eventually(t, func() bool {
		for _, ev := range s.logOf(t, "/x/*") {
			got[string(ev.Path)] = ev.Extensions[sluice.AuthType]
		}
		return len(got) == len(want)
	}, "all are stored")
	require.Equal(t, want, got)
	for _, r := range hook.Wait(len(want)) {
		require.Regexp(t, `"producedBy":"(ai_agent|system)"`, string(r.Body))
	}
}
