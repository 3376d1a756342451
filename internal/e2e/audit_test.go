package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// entries returns the ledger, oldest first.
func (s *running) entries(t *testing.T, q client.AuditQuery) []sluice.LedgerEntry {
	t.Helper()
	page, err := s.api.Audit(t.Context(), q)
	require.NoError(t, err)
	slices.Reverse(page.Items)
	return page.Items
}

func actions(entries []sluice.LedgerEntry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Actor+" "+e.Action+" "+e.Resource+" "+string(e.Outcome))
	}
	return list
}

// fill makes the ledger so small that nothing goes in any more.
func (s *running) fill(t *testing.T) {
	t.Helper()
	tools, err := jsm.New(dial(t, s.at.NATS).Conn())
	require.NoError(t, err)
	stream, err := tools.LoadStream(jsNames(t).Ledger())
	require.NoError(t, err)
	require.NoError(t, stream.UpdateConfiguration(stream.Configuration(), func(o *api.StreamConfig) error {
		o.MaxBytes = 1
		return nil
	}))
}

// S2-04, issue 3, 6: every change is in the ledger, with who and what.
func TestLedger_HasEveryChange(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	_, err := s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Description: "a"})
	require.NoError(t, err)
	for range 2 {
		_, err = s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Description: "b"})
		require.NoError(t, err)
	}
	sub := subscribe(t, s.api, `{"id":"s","namespace":"acme","pattern":"/a","endpoint":{"url":"`+hooktest.New(t, nil).URL+`"}}`)
	_, err = s.api.PauseSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(s.api.DeleteNamespace(t.Context(), sluice.DefaultNamespace)))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(s.api.DeleteNamespace(t.Context(), "nowhere")))
	s.must(t, http.StatusPreconditionFailed, "PUT /v1/namespaces/acme", `{}`, "If-Match", `"1"`)
	require.NoError(t, s.api.DeleteNamespace(t.Context(), "acme"))
	all := s.entries(t, client.AuditQuery{Namespace: "acme"})
	require.Equal(t, []string{
		"root namespace.create acme done", "root namespace.update acme done", "root subscription.create s done",
		"root subscription.pause s done", "root namespace.delete acme done", "root subscription.delete s done",
	}, actions(all))
	require.Len(t, s.entries(t, client.AuditQuery{}), len(all), "what was refused is no change")
	require.JSONEq(t, `{"description":"a"}`, string(all[1].Old))
	require.JSONEq(t, `{"description":"b"}`, string(all[1].New))
	for _, e := range all {
		require.NotEmpty(t, e.RequestID)
		require.NotContains(t, string(e.Old)+string(e.New), sub.Endpoint.Secret)
	}
	require.NotEmpty(t, sub.Endpoint.Secret)
}

// Issue 3, 6: without a ledger nothing is changed, and everything else goes on.
func TestLedger_UnwritableOneStopsChangesOnly(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusGone, func(r hooktest.Request) bool { return idOf(r) == "a-2" }))
	subscribe(t, s.api, wish(hook.URL, `"id":"kept"`))
	_, err := s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{})
	require.NoError(t, err)
	s.fill(t)
	for line, body := range map[string]string{
		"POST /v1/subscriptions/kept/pause": "", "POST /v1/subscriptions/kept/secret/rotate": "{}", "DELETE /v1/subscriptions/kept": "",
		"PATCH /v1/subscriptions/kept": `{"description":"x"}`, "PUT /v1/subscriptions/other": wish(hook.URL),
		"PUT /v1/namespaces/new": "{}", "PUT /v1/namespaces/acme": `{"description":"x"}`, "DELETE /v1/namespaces/acme": "",
	} {
		r := s.must(t, http.StatusServiceUnavailable, line, body)
		require.Equal(t, "unavailable", r.field(t, "error.code"), line)
		require.Contains(t, r.field(t, "error.message"), "ledger", line)
	}
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme", `{}`) // which changes nothing
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/new", "")
	s.must(t, http.StatusNotFound, "GET /v1/subscriptions/other", "")
	sub, err := s.api.Subscription(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Active, ""}, []any{sub.State, sub.Description})

	put(t, s.api, "/a", 1, 2)
	eventually(t, func() bool {
		sub, err = s.api.Subscription(t.Context(), "kept")
		return err == nil && sub.State == sluice.Cancelled
	}, "an endpoint that is gone is let go of all the same (S0-49)")
}

// told is a system event as its subscriber got it.
type told struct {
	Type, Path string
	Data       struct {
		ID           string       `json:"id"`
		State        sluice.State `json:"state"`
		Reason       string       `json:"reason"`
		Revision     uint64       `json:"revision"`
		Subscription string       `json:"subscription"`
		EventID      string       `json:"event_id"`
	}
}

// listener is the endpoint of a subscriber to system events, who asks whenever it is told.
type listener struct {
	*hooktest.Server

	mu    sync.Mutex
	heard []told
	wrong []string
}

func listen(t *testing.T, s *running, react func(told) string) *listener {
	t.Helper()
	l := &listener{}
	l.Server = hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		d := parse(t, r)
		n := told{Type: d.Type, Path: d.Path}
		wrong := ""
		if err := json.Unmarshal(d.Data, &n.Data); err != nil {
			wrong = err.Error()
		}
		if wrong == "" {
			wrong = react(n)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard = append(l.heard, n)
		if wrong != "" {
			l.wrong = append(l.wrong, n.Type+": "+wrong)
		}
		return hooktest.Answer{}
	})
	subscribe(t, s.api, wish(l.URL, `"id":"listener"`, `"pattern":"/_sys/**"`, `"policy":{"ordering":"all"}`))
	return l
}

// of returns what was heard about a subscription.
func (l *listener) of(id string) (types []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.heard {
		if n.Data.ID == id || n.Data.Subscription == id {
			types = append(types, n.Type)
		}
	}
	return types
}

// asking returns a listener's reaction: it asks for what it is told of, and says what is not so.
func (s *running) asking(t *testing.T) func(told) string {
	t.Helper()
	dead := func(n told) string {
		st, err := s.api.Status(t.Context(), n.Data.Subscription)
		if err != nil || st.DeadLetters == 0 {
			return fmt.Sprintf("%d dead letters, %v", st.DeadLetters, err)
		}
		return ""
	}
	return func(n told) string {
		if n.Type == sluice.TypeDeliveryDead {
			return dead(n)
		}
		sub, err := s.api.Subscription(t.Context(), n.Data.ID)
		if n.Type == sluice.TypeSubscriptionDeleted && sluice.CodeOf(err) == sluice.SubscriptionMissing {
			return ""
		}
		if err != nil || sub.Revision < n.Data.Revision || sub.Revision == n.Data.Revision && (sub.State != n.Data.State || sub.Reason != n.Data.Reason) {
			return fmt.Sprintf("told %+v, found %s %s %d, %v", n.Data, sub.State, sub.Reason, sub.Revision, err)
		}
		return ""
	}
}

// S2-04…06, S2-132, S2-133: what happens to subscriptions and deliveries is told to who subscribes
// to it, after it has happened: the listener asks at once, and finds it so.
func TestSystemEvents_FollowTheStoredState(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	l := listen(t, s, s.asking(t))
	everything := hooktest.New(t, nil)
	subscribe(t, s.api, wish(everything.URL, `"id":"everything"`))
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool { return idOf(r) == "a-1" }))
	subscribe(t, s.api, wish(hook.URL, `"id":"it"`, `"pattern":"/a"`, `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":1}}`))
	for _, act := range []string{"pause", "resume", "secret/rotate"} {
		s.must(t, http.StatusOK, "POST /v1/subscriptions/it/"+act, "")
	}
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/it", `{"description":"d"}`)
	put(t, s.api, "/a", 1, 2)
	want := []string{"subscription.created", "subscription.paused", "subscription.resumed", "subscription.secret_rotated", "subscription.updated", "delivery.dead"}
	eventually(t, func() bool { return len(l.of("it")) == len(want) }, "six are told")
	require.NoError(t, s.api.DeleteSubscription(t.Context(), "it"))
	want = append(want, "subscription.deleted")
	eventually(t, func() bool { return len(l.of("it")) == len(want) }, "the last is told")
	require.Equal(t, want, l.of("it"))
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.wrong)
	require.Equal(t, "/_sys/subscriptions/it", l.heard[len(l.heard)-1].Path)
	statusOf(t, s.api, "everything", idle)
	require.Equal(t, []string{"a-1", "a-2"}, idsOf(everything.Requests()), "who wants everything does not want that")

	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/_sys/**"})
	require.NoError(t, err)
	for _, ev := range page.Items {
		require.Equal(t, sluice.SystemSource, ev.Source)
		require.NotContains(t, string(ev.Data), "whsec_")
	}
	page, err = s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	s.must(t, http.StatusForbidden, "POST /v1/namespaces/default/events", `{"path":"/_sys/subscriptions/it","type":"subscription.paused"}`)
}

// Decision 0007: dead letters of system events are not announced, or they would go on for ever.
func TestSystemEvents_DeadLettersMakeNoMore(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusTeapot} })
	const once = `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":1}}`
	subscribe(t, s.api, wish(hook.URL+"/sys", `"id":"sys"`, `"pattern":"/_sys/**"`, once))
	subscribe(t, s.api, wish(hook.URL+"/all", `"id":"all"`, once))
	put(t, s.api, "/a", 1, 3)
	// Both were made, and three deliveries to "all" are dead: five that "sys" refuses.
	statusOf(t, s.api, "sys", func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 5 })
	statusOf(t, s.api, "all", func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 3 })
	put(t, s.api, "/a", 4, 4) // all that could follow from the first three has its place before this one's
	statusOf(t, s.api, "sys", func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 6 })
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/_sys/**"})
	require.NoError(t, err)
	require.Len(t, page.Items, 6)
	require.Len(t, slices.DeleteFunc(page.Items, func(ev sluice.Event) bool { return !strings.HasPrefix(string(ev.Path), "/_sys/deliveries/all") }), 4)
}
