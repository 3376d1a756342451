package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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
// in place of its own.
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
	var letters []map[string]any
	within(t, patience, func() bool {
		letters = s.membersOf(t, "GET /v1/subscriptions/pong-run/dead-letters", "dead_letters")
		return len(letters) > 0
	}, "its event is a dead letter")
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

// requests makes requests in Python, and writes their statuses.
const requests = `
import json, os, sys, urllib.request, urllib.error
url, token = os.environ["SLUICE_URL"], os.environ["SLUICE_TOKEN"]
def call(method, path, body=None):
    req = urllib.request.Request(url + path, method=method, data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(req, timeout=15) as r:
            return r.status, json.loads(r.read() or b"null")
    except urllib.error.HTTPError as e:
        e.read()
        return e.code, None
here = "/v1/namespaces/default"
out = {}
def post(name, event, ns=here):
    out[name] = call("POST", ns + "/events", event)
post("declared", {"path": "/out/1", "type": "out.done", "id": "own", "data": {"token": token}})
post("again", {"path": "/out/1", "type": "out.done", "id": "own", "data": {"token": token}})
post("forged", {"specversion": "1.0", "id": "forged", "source": "/s", "type": "out.done", "path": "/out/2", "causationid": "x", "authid": "root", "authtype": "system"})
post("path", {"path": "/orders/1", "type": "out.done"})
post("type", {"path": "/out/1", "type": "other"})
post("namespace", {"path": "/out/1", "type": "out.done"}, "/v1/namespaces/other")
post("system", {"path": "/_sys/x", "type": "out.done"})
post("later", {"path": "/out/1", "type": "out.done", "deliver_at": "2099-01-01T00:00:00Z"})
post("taken", {"path": "/out/1", "type": "out.done", "id": "hidden"})
for name, method, path in [
    ("read", "GET", here + "/events"), ("hidden", "GET", here + "/events/hidden"), ("seen", "GET", here + "/events/o7"),
    ("state", "GET", here + "/state"), ("hidden state", "GET", here + "/state/secret/1"), ("system events", "GET", here + "/events?pattern=/_sys/**"),
    ("feed", "GET", here + "/feed"), ("ticket", "POST", here + "/feed/tickets"), ("whoami", "GET", "/v1/whoami"), ("grants", "GET", "/v1/grants"),
    ("modules", "GET", "/v1/modules"), ("approve", "POST", "/v1/modules/caller/approve"), ("stream", "PUT", "/streams/default/x"), ("acl", "GET", here + "/acl"),
    ("subscription", "POST", "/v1/subscriptions"), ("other", "GET", "/v1/namespaces/other/events"), ("namespaces", "GET", "/v1/namespaces")]:
    out[name] = call(method, path, {} if method != "GET" else None)
show = {name: status for name, (status, _) in out.items()}
show["duplicate"] = out["again"][1]["events"][0]["duplicate"]
show["paths"] = sorted({e["path"] for name in ("read", "state", "system events") for e in out[name][1]["events"]})
print(token, file=sys.stderr)
print(json.dumps(show, sort_keys=True))
`

// The token of an attempt permits what the module declares, in the namespace of the event, until the attempt ends. What is published with
// it has the handled event as cause.
func TestModule_TokenIsForItsDeclarationAndAttempt(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // the system's, which programs may read
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs " + python)
	}
	s, dirs := withModules(t)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", `{}`)
	moduleOf(t, dirs, "caller", `exec `+python+` lib/requests.py`, "lib/requests.py", requests, "events/subscribe.json",
		`{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"pattern":"/orders/**","timeout":"50s","retry":{"preset":"custom","steps":["1s"],"max_attempts":1},"network":true,"publish":[{"pattern":"/out/**","types":["out.*"]}],"read":["/orders/**"]}]}`)
	s.approves(t, "caller")
	s.publishes(t, "default", "/secret/1 hidden", "/orders/7 o7")
	a := s.attemptsOf(t, "caller-run", "o7")[0]
	require.Equal(t, "delivered", a["outcome"], a)
	lines := strings.Split(a["output"].(string), "\n")
	require.Equal(t, "***", lines[0], "the token is masked")
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &got), a["output"])
	want := map[string]any{
		"declared": 201.0, "again": 201.0, "duplicate": true, "forged": 201.0, "taken": 409.0, "read": 200.0, "seen": 200.0, "state": 200.0, "system events": 200.0,
		"hidden": 404.0, "hidden state": 404.0, "paths": []any{"/orders/7"},
	}
	for _, name := range []string{
		"path", "type", "namespace", "system", "later", "feed", "ticket", "whoami", "grants", "modules", "approve", "stream", "acl", "subscription", "other", "namespaces",
	} {
		want[name] = 403.0
	}
	require.Equal(t, want, got)
	events := s.eventsOn(t, "/out/**")
	require.Len(t, events, 2)
	for _, ev := range events {
		require.Equal(t, []any{"o7", "o7", "module:caller", "service_account"}, []any{ev["causationid"], ev["correlationid"], ev["authid"], ev["authtype"]})
	}
	token := events[0]["data"].(map[string]any)["token"].(string)
	r := s.must(t, http.StatusUnauthorized, "POST /v1/namespaces/default/events", `{"path":"/out/3","type":"out.done"}`, as(token)...)
	require.Contains(t, r.text, "has ended")
	s.must(t, http.StatusUnauthorized, "GET /v1/namespaces/default/events", "", as(token+"x")...)

	// A test gets a token that publishes nothing.
	s.must(t, http.StatusOK, "POST /v1/subscriptions/caller-run/test", "")
	require.Len(t, s.eventsOn(t, "/out/**"), 2)
}

// An approval by another admin makes the subscriptions that admin's: its grant decides from then on.
func TestModule_LastApproverOwnsTheSubscriptions(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `exit 0`)
	ann := s.grant(t, "user:ann", "*", "admin")
	digest := s.must(t, http.StatusOK, "GET /v1/modules/billing", "").field(t, "digest")
	s.must(t, http.StatusOK, "POST /v1/modules/billing/approve", fmt.Sprintf(`{"digest":%q}`, digest), as(ann.token)...)
	require.Equal(t, "user:ann", s.must(t, http.StatusOK, "GET /v1/subscriptions/billing-run", "").field(t, "created_by"))
	s.approves(t, "billing")
	require.Equal(t, "root", s.must(t, http.StatusOK, "GET /v1/subscriptions/billing-run", "").field(t, "created_by"))
	s.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	s.publishes(t, "default", "/a one")
	require.Equal(t, "delivered", s.attemptsOf(t, "billing-run", "one")[0]["outcome"])
}
