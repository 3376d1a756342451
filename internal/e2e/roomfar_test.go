package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F4: where an external NATS server has no room left, publishers and operators are told what to do about it, and all goes on
// without a restart once there is room.
func TestFullStore_ElsewhereIsToldAndHeals(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{MaxStore: 8 << 20})
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = shared.ClientURL() })
	hook := hooktest.New(t, nil)
	s.subscribe(t, "s", hook.URL)
	granted := s.grant(t, "user:ann", "scope:default", "read")
	large, taken := strings.Repeat("x", 200_000), 0
	var full reply
	for full.status == 0 {
		r := s.call(t, "POST /v1/namespaces/default/events", `{"path":"/a/1","type":"t","data":"`+large+`"}`)
		if r.status != http.StatusCreated {
			full = r
			continue
		}
		taken++
		require.Less(t, taken, 100)
	}
	revoke := "POST /v1/grants/" + granted.id + "/revoke"
	for _, route := range []string{"", "POST /v1/subscriptions/s/pause", revoke, "DELETE /v1/subscriptions/s"} {
		refused := full
		if route != "" {
			refused = s.must(t, http.StatusServiceUnavailable, route, "")
		}
		require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"), route)
		require.Contains(t, refused.field(t, "error.message"), "max_file_store", route)
	}

	stream, err := dial(t, shared.ClientURL()).Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context())) // of what is not delivered, too: attempts cannot be recorded, so few are made
	eventually(t, func() bool { return s.call(t, revoke, "").status == http.StatusOK }, "rights are taken again")
	eventually(t, func() bool {
		return s.call(t, "POST /v1/namespaces/default/events", `{"path":"/a/1","type":"t","data":"later"}`).status == http.StatusCreated
	}, "events are taken again")
	eventually(t, func() bool {
		return slices.ContainsFunc(hook.Requests(), func(r hooktest.Request) bool { return strings.Contains(string(r.Body), "later") })
	}, "and delivered")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/s/pause", "")
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/s", "")
}
