package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// printing returns a manifest of one handler that prints events.
func printing(eventType, pattern, more string) string {
	return fmt.Sprintf(`{"events":[{"eventType":%q,"handler":"handlers/run","filter":{"projectScoped":true},"pattern":%q,"timeout":"20s","output":"events",`+
		`"retry":{"preset":"custom","steps":["100ms"],"max_attempts":3}%s}]}`, eventType, pattern, more)
}

// eventsOn returns the events on paths of the default namespace.
func (s *running) eventsOn(t *testing.T, pattern string) []map[string]any {
	t.Helper()
	return s.membersOf(t, "GET /v1/namespaces/default/events?pattern="+pattern, "events")
}

// What a program prints is published when it has handled its event: with the event as cause, the module as producer (S4-80, S4-81), and
// whatever it says of these itself.
func TestModule_PublishesPrintedEvents(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `echo "a log line" >&2
echo '{"path":"/invoices/7","type":"invoice.made","data":{"n":1}}'
echo
echo '{"specversion":"1.0","id":"mine","source":"/mine","type":"invoice.sent","path":"/invoices/7","causationid":"forged","authid":"root","authtype":"system","namespace":"default"}'`,
		"events/subscribe.json", printing("t", "/orders/**", `,"publish":[{"pattern":"/invoices/**","types":["invoice.*"]}]`))
	s.approves(t, "billing")
	s.publishes(t, "default", "/orders/7 o7")
	a := s.attemptsOf(t, "billing-run", "o7")[0]
	require.Equal(t, []any{"delivered", "a log line\n", 2.0}, []any{a["outcome"], a["output"], a["published"]})
	events := s.eventsOn(t, "/invoices/**")
	require.Len(t, events, 2)
	for i, kind := range []string{"invoice.made", "invoice.sent"} {
		ev := events[i]
		require.Equal(t, []any{kind, "o7", "o7", "module:billing", "service_account"},
			[]any{ev["type"], ev["causationid"], ev["correlationid"], ev["authid"], ev["authtype"]})
		require.True(t, strings.HasPrefix(ev["id"].(string), "mod-"), ev)
	}
	require.Equal(t, []any{"/modules/billing", "/mine"}, []any{events[0]["source"], events[1]["source"]})

	// A replay publishes nothing twice.
	s.must(t, http.StatusAccepted, "POST /v1/subscriptions/billing-run/replay", `{"from":"-1"}`)
	within(t, patience, func() bool {
		return len(s.membersOf(t, "GET /v1/subscriptions/billing-run/deliveries/o7", "attempts")) == 2
	}, "the replay")
	require.Len(t, s.eventsOn(t, "/invoices/**"), 2)
}

// A circle of modules ends (S4-82): the module that closes it is unsafe until it is approved again.
func TestModule_CircleMakesItUnsafe(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	for _, way := range [][2]string{{"ping", "pong"}, {"pong", "ping"}} {
		moduleOf(t, dirs, way[0], fmt.Sprintf(`echo '{"path":"/%s","type":"%s"}'`, way[1], way[1]),
			"events/subscribe.json", printing(way[0], "/"+way[0], fmt.Sprintf(`,"publish":[{"pattern":"/%s"}]`, way[1])))
		s.approves(t, way[0])
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/ping","type":"ping","id":"first"}`)
	state := func() string { return s.must(t, http.StatusOK, "GET /v1/modules/pong", "").field(t, "state").(string) }
	within(t, patience, func() bool { return state() == "unsafe" }, "unsafe")
	require.Len(t, s.eventsOn(t, "/ping"), 1)
	pongs := s.eventsOn(t, "/pong")
	require.Len(t, pongs, 1)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/modules/pong", "").field(t, "reason"), "ping on /ping ← pong on /pong ← ping on /ping")
	within(t, patience, func() bool {
		return s.must(t, http.StatusOK, "GET /v1/subscriptions/pong-run", "").field(t, "state") == "suspended"
	}, "suspended")
	require.Equal(t, "approved", s.must(t, http.StatusOK, "GET /v1/modules/ping", "").field(t, "state"))
	letters := s.membersOf(t, "GET /v1/subscriptions/pong-run/dead-letters", "dead_letters")
	require.Len(t, letters, 1)
	require.Equal(t, []any{"loop", pongs[0]["id"]}, []any{letters[0]["reason"], letters[0]["event_id"]})
	within(t, patience, func() bool {
		events := s.eventsOn(t, "/_sys/modules/pong")
		return events[len(events)-1]["type"] == "module.unsafe"
	}, "it is told")
	entries := s.membersOf(t, "GET /v1/audit?action=module.unsafe", "entries")
	require.Len(t, entries, 1)
	require.Equal(t, []any{"pong", "system"}, []any{entries[0]["resource"], entries[0]["actor"]})

	s.approves(t, "pong")
	require.Equal(t, "approved", state())
	require.Empty(t, s.membersOf(t, "GET /v1/producers/unsafe", "producers"))
	require.Equal(t, "active", s.must(t, http.StatusOK, "GET /v1/subscriptions/pong-run", "").field(t, "state"))
}
