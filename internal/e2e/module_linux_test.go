package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// moduleOf writes a module with a handler in sh for events of the type t, and more files.
func moduleOf(tb testing.TB, dirs, name, script string, more ...string) {
	tb.Helper()
	dir := filepath.Join(dirs, name)
	files := map[string]string{
		"events/subscribe.json": `{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"retry":{"preset":"custom","steps":["100ms"],"max_attempts":3},"timeout":"20s"}]}`,
		"handlers/run":          "#!/bin/sh\n" + script + "\n",
	}
	for i := 0; i+1 < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	for path, text := range files {
		path = filepath.Join(dir, path)
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(tb, os.WriteFile(path, []byte(text), 0o700))
	}
}

// withModules starts a server with a directory of modules.
func withModules(t *testing.T) (s *running, dirs string) {
	t.Helper()
	dirs = t.TempDir()
	return start(t, t.TempDir(), func(c *config.Config) { c.Modules.Dirs = []string{dirs} }), dirs
}

// approves approves a module as it is.
func (s *running) approves(tb testing.TB, name string) {
	tb.Helper()
	digest := s.must(tb, http.StatusOK, "GET /v1/modules/"+name, "").field(tb, "digest")
	s.must(tb, http.StatusOK, "POST /v1/modules/"+name+"/approve", fmt.Sprintf(`{"digest":%q}`, digest))
}

// A program gets each event as its subscription's envelope, in the order of its path, and only after the approval (S4-29).
func TestModule_RunsOnEventsOnceApproved(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `cat; echo; echo "$SLUICE_EVENT_ID $SLUICE_EVENT_TYPE $SLUICE_EVENT_PATH $SLUICE_ATTEMPT $SLUICE_MODULE"`)
	r := s.must(t, http.StatusOK, "GET /v1/modules/billing", "")
	require.Equal(t, "found", r.field(t, "state"))
	s.must(t, http.StatusNotFound, "GET /v1/subscriptions/billing-run", "")
	s.must(t, http.StatusPreconditionFailed, "POST /v1/modules/billing/approve", `{"digest":"sha256:00"}`)

	s.approves(t, "billing")
	require.Equal(t, "approved", s.must(t, http.StatusOK, "GET /v1/modules/billing", "").field(t, "state"))
	sub := s.must(t, http.StatusOK, "GET /v1/subscriptions/billing-run", "")
	require.Equal(t, "billing", sub.field(t, "module"))
	s.publishes(t, "default", "/a one", "/a two", "/a three")
	for _, id := range []string{"one", "two", "three"} {
		a := s.attemptsOf(t, "billing-run", id)[0]
		require.Equal(t, "delivered", a["outcome"], a)
		event, more, _ := strings.Cut(a["output"].(string), "\n")
		var ev map[string]any
		require.NoError(t, json.Unmarshal([]byte(event), &ev))
		require.Equal(t, map[string]any{"text": id}, ev["data"])
		require.Equal(t, id+" t /a 1 billing\n", more)
	}
}

// S4-30: events go to an endpoint of the module, by its name, and stop with its files like a program.
func TestModule_EndpointGetsEvents(t *testing.T) {
	t.Parallel()
	hook := hooktest.New(t, nil)
	s, dirs := withModules(t)
	file := filepath.Join(dirs, "crm", "events", "subscribe.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	manifest := fmt.Sprintf(`{"endpoints":{"orders":"%s/hook"},"events":[{"eventType":"t","endpoint":"orders","filter":{"projectScoped":true}}]}`, hook.URL)
	require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
	s.approves(t, "crm")
	shown := s.membersOf(t, "GET /v1/modules/crm", "handlers")[0]
	require.Equal(t, []any{"orders", hook.URL + "/***", "endpoint"}, []any{shown["endpoint"], shown["url"], shown["mode"]})
	s.publishes(t, "default", "/a one")
	hook.Wait(1)
	require.Equal(t, "delivered", s.attemptsOf(t, "crm-orders", "one")[0]["outcome"])
	require.Equal(t, http.StatusForbidden, s.call(t, "PATCH /v1/subscriptions/crm-orders", `{"endpoint":{"url":"https://elsewhere.example"}}`).status)

	require.NoError(t, os.WriteFile(file, []byte(manifest+" "), 0o600))
	within(t, patience, func() bool {
		return s.must(t, http.StatusOK, "GET /v1/subscriptions/crm-orders", "").field(t, "state") == "suspended"
	}, "the changed module is suspended")
	s.publishes(t, "default", "/a two")
	s.approves(t, "crm")
	hook.Wait(2)
	require.Equal(t, "delivered", s.attemptsOf(t, "crm-orders", "two")[0]["outcome"])
}

// attemptsOf waits until a delivery has ended, and returns its attempts.
func (s *running) attemptsOf(t *testing.T, subscription, event string) (all []map[string]any) {
	t.Helper()
	line := "GET /v1/subscriptions/" + subscription + "/deliveries/" + event
	within(t, patience, func() bool {
		r := s.call(t, line, "")
		return r.status == http.StatusOK && slices.Contains([]any{"delivered", "dead"}, r.field(t, "state"))
	}, event)
	return s.membersOf(t, line, "attempts")
}

// membersOf returns the elements of a list in a response.
func (s *running) membersOf(t *testing.T, line, list string) []map[string]any {
	t.Helper()
	var page map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, line, "").text), &page))
	var all []map[string]any
	require.NoError(t, json.Unmarshal(page[list], &all), line)
	return all
}

// Exit codes decide: 0 is done, 75 is tried again under the policy, 65 is a dead letter at once with what the program said.
func TestModule_ExitCodesDecide(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "picky", `case "$SLUICE_EVENT_ID" in ok) exit 0;; later) [ "$SLUICE_ATTEMPT" = 2 ] && exit 0; exit 75;; bad) echo "no such order" >&2; exit 65;; *) kill -9 $$;; esac`)
	s.approves(t, "picky")
	s.publishes(t, "default", "/1 ok", "/2 later", "/3 bad", "/4 dies")
	outcomes := map[string][]string{}
	for _, id := range []string{"ok", "later", "bad", "dies"} {
		for _, a := range s.attemptsOf(t, "picky-run", id) {
			outcomes[id] = append(outcomes[id], fmt.Sprint(a["outcome"], " ", a["error"]))
		}
	}
	killed := "failed the program was ended by signal 9 (killed)"
	require.Equal(t, map[string][]string{
		"ok": {"delivered <nil>"}, "later": {"failed the program ended with exit code 75", "delivered <nil>"},
		"bad": {"refused the program ended with exit code 65: no such order"}, "dies": {killed, killed, killed},
	}, outcomes)
	reasons := map[string]any{}
	for _, letter := range s.membersOf(t, "GET /v1/subscriptions/picky-run/dead-letters", "dead_letters") {
		reasons[letter["event_id"].(string)] = letter["reason"]
	}
	require.Equal(t, map[string]any{"bad": "handler_refused", "dies": "exhausted"}, reasons)
}

// A file that changes stops its module until it is approved again, and its events wait. What runs is what was approved.
func TestModule_ChangedFileStopsIt(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `cat lib/word`, "lib/word", "first")
	s.approves(t, "billing")
	require.NoError(t, os.WriteFile(filepath.Join(dirs, "billing/lib/word"), []byte("other"), 0o600))
	m := s.must(t, http.StatusOK, "GET /v1/modules/billing", "")
	require.Equal(t, []any{"changed", []any{"lib/word"}}, []any{m.field(t, "state"), m.field(t, "changed")})
	eventually(t, func() bool {
		return slices.Contains(s.typesOn(t, "default", "/_sys/modules/billing"), "module.changed")
	}, "it is suspended, and told: a scan may have found it first")
	sub := s.must(t, http.StatusOK, "GET /v1/subscriptions/billing-run", "")
	require.Equal(t, "suspended", sub.field(t, "state"))
	require.Contains(t, sub.field(t, "reason"), "lib/word")
	s.publishes(t, "default", "/a one")
	s.approves(t, "billing")
	require.Equal(t, "other", s.attemptsOf(t, "billing-run", "one")[0]["output"])
	var kinds []any
	for _, ev := range s.membersOf(t, "GET /v1/namespaces/default/events?pattern=/_sys/modules/billing", "events") {
		kinds = append(kinds, ev["type"])
	}
	require.ElementsMatch(t, []any{"module.enabled", "module.changed", "module.enabled"}, kinds)
}

// Events that wait for the approval of another pattern are handled.
func TestModule_NewPatternKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const manifest = `{"events":[{"eventType":"t","handler":"handlers/run","pattern":"%s","filter":{"projectScoped":true}}]}`
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", "exit 0", "events/subscribe.json", fmt.Sprintf(manifest, "/a/**"))
	s.approves(t, "billing")
	s.publishes(t, "default", "/a first")
	require.Len(t, s.attemptsOf(t, "billing-run", "first"), 1)
	for round, pattern := range []string{"/*", "/**"} {
		moduleOf(t, dirs, "billing", "exit 0", "events/subscribe.json", fmt.Sprintf(manifest, pattern))
		require.Equal(t, "changed", s.must(t, http.StatusOK, "GET /v1/modules/billing", "").field(t, "state"))
		id := fmt.Sprint("waits-", round)
		s.publishes(t, "default", "/a "+id)
		s.approves(t, "billing")
		require.Equal(t, "delivered", s.attemptsOf(t, "billing-run", id)[0]["outcome"])
	}
	require.Len(t, s.attemptsOf(t, "billing-run", "first"), 1, "it was settled")
}

// A module that is disabled keeps its place; one that is removed loses its subscriptions.
func TestModule_IsDisabledAndRemoved(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `exit 0`)
	s.must(t, http.StatusNotFound, "POST /v1/modules/billing/disable", "")
	s.approves(t, "billing")
	require.Equal(t, "disabled", s.must(t, http.StatusOK, "POST /v1/modules/billing/disable", "").field(t, "state"))
	s.publishes(t, "default", "/a one")
	require.Equal(t, "paused", s.must(t, http.StatusOK, "GET /v1/subscriptions/billing-run", "").field(t, "state"))
	s.approves(t, "billing")
	require.Len(t, s.attemptsOf(t, "billing-run", "one"), 1, "it goes on where it was")
	s.must(t, http.StatusNoContent, "DELETE /v1/modules/billing", "")
	s.must(t, http.StatusNotFound, "GET /v1/subscriptions/billing-run", "")
	require.Equal(t, "found", s.must(t, http.StatusOK, "GET /v1/modules/billing", "").field(t, "state"))
	s.must(t, http.StatusNotFound, "DELETE /v1/modules/billing", "")
}

// A caller that may subscribe may not run programs, and an approved program cannot be changed by hand.
func TestModule_ProgramsNeedAnApproval(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "billing", `exit 0`)
	s.approves(t, "billing")
	for _, line := range []string{"POST /v1/subscriptions", "PUT /v1/subscriptions/x"} {
		s.must(t, http.StatusForbidden, line, `{"pattern":"/**","endpoint":{"exec":["/bin/sh","-c","id"]}}`)
	}
	s.must(t, http.StatusBadRequest, "POST /v1/subscriptions", `{"pattern":"/**","module":"billing","endpoint":{"exec":["handlers/run"]}}`)
	s.must(t, http.StatusForbidden, "PATCH /v1/subscriptions/billing-run", `{"endpoint":{"exec":["handlers/run","-x"]}}`)
	s.must(t, http.StatusForbidden, "PATCH /v1/subscriptions/billing-run", `{"endpoint":{"exec":null,"url":"https://example.com/"}}`)
	s.must(t, http.StatusBadRequest, "PATCH /v1/subscriptions/billing-run", `{"module":"other"}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", wish("http://127.0.0.1:9/", `"id":"plain"`, `"enabled":false`))
	s.must(t, http.StatusForbidden, "PATCH /v1/subscriptions/plain", `{"endpoint":{"exec":["/bin/sh"],"url":null}}`)

	admin := s.grant(t, "user:ann", "scope:default", "admin")
	s.must(t, http.StatusForbidden, "GET /v1/modules", "", as(admin.token)...)
}

// System events are for modules that root has approved (S4-33), and a module that is unclear is not loaded, with the line (S4-32).
func TestModule_UnclearOneIsNotLoaded(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "unclear", `exit 0`, "events/subscribe.json", "{\n\"events\":[\n{\"eventType\":\"t\",\"handler\":\"handlers/run\"}]}")
	m := s.must(t, http.StatusOK, "GET /v1/modules/unclear", "")
	require.Equal(t, "invalid", m.field(t, "state"))
	require.Contains(t, m.field(t, "reason"), "events/subscribe.json:3: events[0]: filter.projectScoped is missing")
	r := s.must(t, http.StatusUnprocessableEntity, "POST /v1/modules/unclear/approve", `{"digest":"sha256:1"}`)
	require.Contains(t, r.text, "filter.projectScoped is missing")

	moduleOf(t, dirs, "warden", `echo "$SLUICE_EVENT_TYPE"`, "events/subscribe.json", `{"events":[{"eventType":"namespace.created","handler":"handlers/run","filter":{"projectScoped":false}}]}`)
	require.Equal(t, true, s.must(t, http.StatusOK, "GET /v1/modules/warden", "").field(t, "system"))
	s.approves(t, "warden")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/eu", `{}`)
	var events []map[string]any
	within(t, patience, func() bool {
		events = s.membersOf(t, "GET /v1/subscriptions/warden-run/deliveries", "deliveries")
		return len(events) == 1
	}, "it gets the event")
	require.Equal(t, "namespace.created\n", s.attemptsOf(t, "warden-run", url.PathEscape(events[0]["event_id"].(string)))[0]["output"])
}

// Two handlers may share a program: each has its own arguments, rights and dialect, and none gets those of the other.
func TestModule_HandlersOfOneProgramDiffer(t *testing.T) {
	t.Setenv("MODULE_WORD", "sesame")
	s, dirs := withModules(t)
	one := `{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"pattern":"/%s/**","id":%q%s}`
	manifest := `{"events":[` + fmt.Sprintf(one, "a", "a", `,"env":["MODULE_WORD"]`) + `,` + fmt.Sprintf(one, "b", "b", `,"dialect":"hooks"`) + `]}`
	moduleOf(t, dirs, "twins", `echo "word=$MODULE_WORD"; exit 2`, "events/subscribe.json", manifest)
	s.approves(t, "twins")
	s.publishes(t, "default", "/b/1 refused")
	a := s.attemptsOf(t, "twins-b", "refused")
	require.Len(t, a, 1, "2 refuses in its dialect alone")
	require.Equal(t, []any{"refused", "word=\n"}, []any{a[0]["outcome"], a[0]["output"]})
	why := s.must(t, http.StatusOK, "GET /v1/subscriptions/twins-b/deliveries/refused", "")
	require.Contains(t, why.field(t, "explanation"), "the module's program refused it for good")
}

// Handlers that would share a subscription are refused before anything is stored.
func TestModule_HandlersShareNoSubscription(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/a-b", `{}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/b", `{}`)
	one := `{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"id":%q}`
	moduleOf(t, dirs, "m", `exit 0`, "events/subscribe.json", `{"namespaces":["b","a-b"],"events":[`+fmt.Sprintf(one, "x")+`,`+fmt.Sprintf(one, "x-a")+`]}`)
	digest := s.must(t, http.StatusOK, "GET /v1/modules/m", "").field(t, "digest")
	r := s.must(t, http.StatusUnprocessableEntity, "POST /v1/modules/m/approve", fmt.Sprintf(`{"digest":%q}`, digest))
	require.Contains(t, r.text, "m-x-a-b")
	require.Equal(t, "found", s.must(t, http.StatusOK, "GET /v1/modules/m", "").field(t, "state"))
}

// A server of root runs programs as another user, to whom its data directory is closed but for the copies.
func TestModule_RunsAsItsUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dirs, data := t.TempDir(), t.TempDir()
	for _, dir := range []string{data, filepath.Dir(data)} {
		require.NoError(t, os.Chmod(dir, 0o711))
	}
	s := start(t, data, func(c *config.Config) { c.Modules.Dirs, c.Modules.User = []string{dirs}, "nobody" })
	moduleOf(t, dirs, "who", `id -un; cat "$1/root.token" 2>/dev/null; ls "$1" 2>/dev/null; echo x > "$TMPDIR/x" && echo wrote; exit 0`,
		"events/subscribe.json", fmt.Sprintf(`{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"args":[%q]}]}`, data))
	s.approves(t, "who")
	s.publishes(t, "default", "/a one")
	require.Equal(t, "nobody\nwrote\n", s.attemptsOf(t, "who-run", "one")[0]["output"])
}
