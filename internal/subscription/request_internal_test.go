package subscription

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S4-75: each field of one shape beside the other is refused, rather than left out.
func TestRequest_HasOneShape(t *testing.T) {
	t.Parallel()
	s0 := []string{
		`"target":"scope:a"`, `"on_change":"webhook"`, `"webhook_url":"https://a.example"`, `"wake_agent_id":"x"`, `"event_filter":[]`, `"scope":"a"`,
	}
	ours := []string{
		`"namespace":"a"`, `"mode":"push"`, `"pattern":"/a"`, `"filter":{}`, `"endpoint":{"url":"https://a.example"}`, `"endpoint":{"secret":"x"}`,
		`"endpoint":{"headers":{}}`, `"endpoint":{"handshake":true}`, `"start":"all"`, `"start":7`, `"policy":{}`,
	}
	for _, a := range s0 {
		for _, b := range ours {
			req, err := ParseRequest([]byte("{" + a + "," + b + "}"))
			require.NoError(t, err)
			_, err = req.subscription()
			require.Equal(t, sluice.Ambiguous, sluice.CodeOf(err), "%s %s", a, b)
			require.ErrorContains(t, err, "mixes", "%s %s", a, b)
		}
	}
}

func TestRequest_NamesMissingFields(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`"target":"scope:a","on_change":"webhook"`, `webhook_url is missing`},
		{`"target":"scope:a","on_change":"webhook","webhook_url":"/x"`, `webhook_url "/x": use an absolute URL such as https://example.com/hook`},
		{`"on_change":"webhook","webhook_url":"https://a.example"`, `target is missing; write scope:<namespace> or entity:<uri>`},
		{`"target":"scope:a"`, `on_change is missing; use "webhook"`},
		{`"target":"entity:","on_change":"webhook"`, `target "entity:": write scope:<namespace> or entity:<uri>`},
		{`"target":"scope:a","on_change":"webhook","wake_agent_id":"x","webhook_url":"/x"`, `wake_agent_id requires on_change "wake", not "webhook"; omit it`},
	} {
		req, err := ParseRequest([]byte("{" + c[0] + "}"))
		require.NoError(t, err)
		_, err = req.subscription()
		require.EqualError(t, err, c[1])
	}
}

func TestRequest_IsEnabledUnlessItSaysNot(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{`{"pattern":"/a"}`: true, `{"pattern":"/a","enabled":true}`: true, `{"pattern":"/a","enabled":false}`: false} {
		req, err := ParseRequest([]byte(body))
		require.NoError(t, err)
		sub, err := req.subscription()
		require.NoError(t, err)
		require.Equal(t, want, sub.Enabled, body)
	}
	for body, want := range map[string]string{`{"pattern":"/a","start":7}`: "7", `{"pattern":"/a","start":"7"}`: "7", `{"pattern":"/a","start":"all"}`: "all"} {
		req, err := ParseRequest([]byte(body))
		require.NoError(t, err)
		sub, err := req.subscription()
		require.NoError(t, err)
		require.Equal(t, want, sub.Start, body)
	}
}
