package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// Issue 13: a lost connection is logged a few times, however many subscriptions wait for it.
func TestOutage_LinesDoNotGrowWithSubscriptions(t *testing.T) { // S4-22
	t.Parallel()
	const each = 40
	server, hook, log := natstest.Listening(t), hooktest.New(t, nil), &logLines{}
	s := startLogging(t, t.TempDir(), func(c *config.Config) {
		c.NATS.URL, c.Webhooks.SharedAbove = server.ClientURL(), -1
	}, log)
	for i := range each {
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"push-%d","pattern":"/a/**","endpoint":{"url":%q}}`, i, hook.URL))
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"wake-%d","mode":"wake","pattern":"/a/**","endpoint":{"url":%q}}`, i, hook.URL))
		s.must(t, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/default/watches/w%d", i), fmt.Sprintf(`{"pattern":"/a/**","filter":{"cel":"true"},"trigger":"level","action":{"path":"/alarms/%d","type":"alarm"}}`, i))
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a/1"}`)
	eventually(t, func() bool { return len(hook.Requests()) >= 2*each }, "all have an event")
	before := log.String()
	server.Restart(t)
	came := len(hook.Requests())
	eventually(t, func() bool { return s.call(t, "POST /v1/namespaces/default/events", `{"path":"/a/2"}`).status < 300 }, "NATS is back")
	eventually(t, func() bool { return len(hook.Requests()) >= came+each }, "deliveries go on")
	lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(log.String(), before)), "\n")
	var warned []string
	for _, line := range lines {
		loud := strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")
		// Those are summed up by the command.
		summed := strings.Contains(line, " subscription=") || strings.Contains(line, " watch=")
		if loud && !summed {
			warned = append(warned, line)
		}
	}
	require.Less(t, len(warned), each/2, strings.Join(warned, "\n"))
}
