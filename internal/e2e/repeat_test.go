package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Issue 13, attacks 12 and 16: an id that is taken by something else, or by an event that the publisher may not see, is
// a conflict; who sends the same again is told where it lies.
func TestIDs_TakenByOtherDataAreConflicts(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events = "POST /v1/namespaces/default/events"
	eve := as(s.grant(t, "user:eve", "scope:default", "publish").token)
	s.must(t, http.StatusCreated, events, `{"id":"open","path":"/a","type":"t","data":{"n":1}}`)
	s.labelled(t, "/a", "hidden", "SECRET", `{"n":1}`)
	soon := in(time.Hour)
	s.must(t, http.StatusAccepted, events, `{"id":"later","path":"/a","type":"t","data":{"n":1},"deliver_at":"`+soon+`"}`)

	r := s.must(t, http.StatusCreated, events, `{"id":"open","path":"/a","type":"t","data":{"n": 1}}`, eve...)
	require.Contains(t, r.text, `"duplicate":true`)
	for _, body := range []string{
		`{"id":"open","path":"/a","type":"t","data":{"n":2}}`, `{"id":"open","path":"/a","type":"u","data":{"n":1}}`,
		`[{"path":"/a"},{"id":"open","path":"/a","type":"t","data":{"n":2}}]`,
		`{"id":"hidden","path":"/a","type":"t","data":{"n":1}}`, `{"id":"hidden","path":"/a","type":"t","data":{"n":2}}`,
		`{"id":"hidden","path":"/a","type":"t","data":{"n":1},"deliver_at":"` + soon + `"}`,
		`{"id":"later","path":"/a","type":"t","data":{"n":2},"deliver_at":"` + soon + `"}`,
	} {
		r := s.must(t, http.StatusConflict, events, body, eve...)
		require.NotContains(t, r.text, "seq", body)
	}
	require.Len(t, s.logOf(t, "/a"), 2, "nothing of them is stored")
}
