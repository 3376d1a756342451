package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The questions of a support engineer while an endpoint is down and after it has recovered: each is answered by one command
// (issue 18).
func TestIncident_EachQuestionTakesOneCommand(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	erp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			http.Error(w, "maintenance until four", http.StatusServiceUnavailable)
		}
	}))
	defer erp.Close()
	crm := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer crm.Close()
	c := serving(t)
	c.must("sub", "create", "--id", "erp", "--pattern", "/orders/**", "--url", erp.URL)
	c.must("sub", "create", "--id", "short", "--pattern", "/orders/1", "--url", erp.URL, "--retry", "1s")
	c.must("sub", "create", "--id", "crm", "--pattern", "/**", "--url", crm.URL)
	for _, event := range []string{"pay-1", "pay-2", "pay-3"} {
		c.must("pub", "/orders/"+strings.TrimPrefix(event, "pay-"), `{"total":7}`, "--type", "order.paid", "--id", event)
	}
	c.shows("dead ls short", "pay-1", "exhausted")

	ask := func(questions ...[]string) {
		for _, q := range questions {
			c.shows(q[1], q[2:]...)
		}
	}
	ask(
		[]string{"which endpoints are failing?", "status", "erp", "short", "FAILING SINCE"},
		[]string{"is a subscription among them?", "sub ls", "HEALTH", "failing"},
		[]string{"does the server warn?", "doctor", "subscriptions"},
		[]string{"how much waits, and for how long?", "sub status erp", "parked", "breaker"},
		[]string{"what does the endpoint answer?", "deliveries erp pay-1", "maintenance until four"},
		[]string{"why has the event not arrived?", "deliveries erp pay-1", "failed (status 503)"},
		[]string{"did everybody get it?", "event pay-1", "crm", "delivered", "erp", "retrying", "short", "dead"},
		[]string{"what was given up?", "dead ls short", "pay-1", "exhausted"},
		[]string{"what happened last?", "events ls --last 1 --pattern /orders/**", "pay-3"},
		[]string{"what failed in the last minutes?", "deliveries erp --since 10m --state failed", "pay-2"},
		[]string{"who changed what?", "audit --resource erp --since 1h", "subscription.create"},
	)
	up.Store(true)
	ask(
		[]string{"is it up again?", "sub test erp", "delivered"},
		[]string{"can it be noticed now?", "sub retry erp", "erp"},
		[]string{"has it arrived?", "event pay-1", "erp", "delivered"},
		[]string{"what would a replay send?", "sub replay erp --from pay-2 --dry-run", "2"},
	)
	require.Contains(t, c.must("dead", "redrive", "short", "--all"), "sluice sub replays short", "can what was given up be sent?")
	ask(
		[]string{"which attempts were the original's?", "event pay-1", "redrive"},
		[]string{"can both be paused?", "sub pause erp crm", "Paused subscription erp.", "Paused subscription crm."},
	)
}

// shows runs a command until its output has the texts: deliveries take a moment.
func (c commands) shows(line string, texts ...string) {
	c.t.Helper()
	var said string
	require.Eventually(c.t, func() bool {
		status, stdout, stderr := c.run("", strings.Fields(line)...)
		said = stdout + stderr
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return false
			}
		}
		return status == 0 || line == "doctor"
	}, patience, 20*time.Millisecond, "%s: %s", line, lazily{&said})
}

// lazily is a text as it is when it is printed.
type lazily struct{ text *string }

func (l lazily) String() string { return *l.text }
