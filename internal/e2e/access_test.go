package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// granted is a grant as the API answers it.
type granted struct{ id, token string }

// grant mints a grant as root, or as the holder of a token, for an hour.
func (s *running) grant(tb testing.TB, principal, object, verbs string, by ...string) granted {
	tb.Helper()
	r := s.must(tb, http.StatusCreated, "POST /v1/grants", grantBody(principal, object, verbs), as(append(by, s.token)[0])...)
	id, _ := r.field(tb, "id").(string)
	token, _ := r.field(tb, "token").(string)
	return granted{id, token}
}

// grantBody returns the body of a request for a grant; the verbs are divided by spaces.
func grantBody(principal, object, verbs string) string {
	return fmt.Sprintf(`{"principal":%q,"object":%q,"verbs":["%s"],"expires_at":%q}`, principal, object,
		strings.ReplaceAll(verbs, " ", `","`), deadline.Format(time.RFC3339))
}

// deadline is when the grants of all tests end, so that a part of one may last as long as it.
var deadline = time.Now().Add(time.Hour)

// as returns the headers of a request with a token.
func as(token string) []string { return []string{"Authorization", "Bearer " + token} }

// made is call for a subscription that is made with a token; it returns its id.
func (s *running) made(t *testing.T, token, body string) string {
	t.Helper()
	id, ok := s.must(t, http.StatusCreated, "POST /v1/subscriptions", body, as(token)...).field(t, "id").(string)
	require.True(t, ok)
	return id
}

// marked publishes an event on a path, with a mark that is in nothing else.
func (s *running) marked(t *testing.T, path, mark string) {
	t.Helper()
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":%q,"type":"t","data":{"mark":%q}}`, path, mark))
}

// stateOf returns a subscription's state and why.
func (s *running) stateOf(t *testing.T, id string) string {
	t.Helper()
	r := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "")
	state, _ := r.field(t, "state").(string)
	reason, _ := r.field(t, "reason").(string)
	return strings.TrimSpace(state + " " + reason)
}

// revocation is a way in which a principal loses access; it returns when that is acknowledged.
type revocation func(t *testing.T, s *running, g granted)

func revocations() map[string]revocation {
	return map[string]revocation{
		"the grant is revoked": func(t *testing.T, s *running, g granted) {
			t.Helper()
			s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
		},
		"the principal is taken off the access list": func(t *testing.T, s *running, _ granted) {
			t.Helper()
			s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/default/acl/user:ann", "")
		},
		"the namespace's label is raised": func(t *testing.T, s *running, _ granted) {
			t.Helper()
			s.must(t, http.StatusOK, "PUT /v1/namespaces/default", `{"label":{"level":"SECRET"}}`)
		},
		"the principal's clearance is lowered": func(t *testing.T, s *running, _ granted) {
			t.Helper()
			s.must(t, http.StatusNoContent, "DELETE /v1/principals/user:ann", "")
		},
	}
}

// listed puts ann on the access list and clears her for a label that the namespace gets.
func (s *running) listed(t *testing.T) {
	t.Helper()
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:boss", `{"tier":"admin"}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:ann", `{"tier":"read"}`)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"INTERNAL"}}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default", `{"label":{"level":"INTERNAL"}}`)
}

// trouble is what a subscription is in when access is lost.
type trouble struct {
	policy string
	// begin brings it about and returns when it is so; answer is what the endpoint does.
	begin  func(t *testing.T, s *running, id string, hook *hooktest.Server)
	answer func(r hooktest.Request) hooktest.Answer
}

func troubles() map[string]trouble {
	failing := func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusServiceUnavailable} }
	arrived := func(n int) func(*testing.T, *running, string, *hooktest.Server) {
		return func(t *testing.T, s *running, _ string, hook *hooktest.Server) {
			t.Helper()
			for i := range n {
				s.marked(t, fmt.Sprintf("/a/%d", i), "before")
			}
			hook.Wait(n)
		}
	}
	return map[string]trouble{
		"between two deliveries": {policy: quick, begin: arrived(3)},
		"between two attempts, parked": {
			policy: quick, answer: failing,
			begin: func(t *testing.T, s *running, id string, hook *hooktest.Server) {
				t.Helper()
				s.marked(t, "/a", "before")
				statusOf(t, s.api, id, func(st sluice.Status) bool { return st.Parked == 1 })
				hook.Wait(3)
			},
		},
		"while the breaker is open": {
			policy: quick, answer: failing,
			begin: func(t *testing.T, s *running, id string, _ *hooktest.Server) {
				t.Helper()
				for i := range 40 {
					s.marked(t, fmt.Sprintf("/a/%d", i), "before")
				}
				statusOf(t, s.api, id, func(st sluice.Status) bool { return st.Breaker != "" && st.Breaker != "closed" })
			},
		},
		"during a replay": {
			policy: quick,
			begin: func(t *testing.T, s *running, id string, hook *hooktest.Server) {
				t.Helper()
				for i := range 50 {
					s.marked(t, fmt.Sprintf("/a/%d", i), "before")
				}
				hook.Wait(50)
				s.must(t, http.StatusAccepted, "POST /v1/subscriptions/"+id+"/replay", `{"from":1,"rate":{"per_second":20}}`)
				hook.Wait(55)
			},
		},
		"while attempts are under way": {
			policy: `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":100},"timeout":"30s"}`,
			answer: func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} },
			begin:  arrived(3),
		},
	}
}

// S0-57…64: in any state of a subscription, and by any loss of its owner's access, from the moment in
// which that is acknowledged not one more request is made; it is cancelled, which is told once.
func TestAccess_NothingLeavesAfterTheLossIsAcknowledged(t *testing.T) {
	t.Parallel()
	for how, revoke := range revocations() {
		for when, in := range troubles() {
			if how != "the grant is revoked" && when != "between two attempts, parked" && when != "while attempts are under way" {
				continue // what stops them is the same
			}
			t.Run(how+" "+when, func(t *testing.T) {
				t.Parallel()
				s := start(t, t.TempDir(), nil)
				s.listed(t)
				clock := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusServiceUnavailable} })
				hook := hooktest.New(t, in.answer)
				g := s.grant(t, "user:ann", "scope:default", "subscribe")
				id := s.made(t, g.token, wish(hook.URL, `"id":"hers"`, `"pattern":"/a/**"`, in.policy))
				s.made(t, s.token, wish(clock.URL, `"pattern":"/clock"`, quick))
				in.begin(t, s, id, hook)

				revoke(t, s, g)
				sent := len(hook.Requests())
				s.marked(t, "/a", "after")
				s.marked(t, "/clock", "tick")
				clock.Wait(8) // so often it would have been tried again
				for _, r := range hook.Requests() {
					require.NotContains(t, string(r.Body), "after")
				}
				require.LessOrEqual(t, len(hook.Requests()), sent+inKernel, "nothing but what was on the wire")
				settled := len(hook.Requests())
				s.marked(t, "/a/0", "after")
				clock.Wait(14)
				require.Len(t, hook.Requests(), settled)
				require.Equal(t, "cancelled access_revoked", s.stateOf(t, id))
				told := s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?pattern=/_sys/**&types=subscription_cancelled_access_revoked", "")
				require.Equal(t, 1, strings.Count(told.text, `"subscription_cancelled_access_revoked"`), told.text)
				audit := s.must(t, http.StatusOK, "GET /v1/audit?resource="+id+"&action=subscription.cancel", "")
				done, failed := strings.Count(audit.text, `"outcome":"done"`), strings.Count(audit.text, `"outcome":"failed"`)
				require.Equal(t, 1, done-failed, "who sends and who watches may both try: %s", audit.text)
			})
		}
	}
}

// inKernel is how many requests the endpoint's server may not have read yet when the other side has
// ended.
const inKernel = 2

// Under load, too: of what is published after the acknowledgement nothing arrives.
func TestRevoke_LaterEventsDoNotArrive(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	var published atomic.Int64
	var revoked atomic.Bool
	var load sync.WaitGroup
	for w := range 4 {
		load.Go(func() {
			for i := 0; !revoked.Load() && i < 5000; i++ {
				s.marked(t, fmt.Sprintf("/p/%d", w), "before")
				published.Add(1)
			}
			for range 50 {
				s.marked(t, fmt.Sprintf("/p/%d", w), "after")
			}
		})
	}
	g := s.grant(t, "user:ann", "scope:default", "subscribe")
	s.made(t, g.token, wish(hook.URL))
	hook.Wait(200)
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	revoked.Store(true)
	load.Wait()
	control := hooktest.New(t, nil)
	s.made(t, s.token, wish(control.URL, `"start":"all"`))
	control.Wait(int(published.Load()) + 200)
	for _, r := range hook.Requests() {
		require.NotContains(t, string(r.Body), "after")
	}
}

// half is a request whose body has not arrived, though its head has been checked.
type half struct {
	net.Conn

	from *bufio.Reader
}

// half begins a request with a token and a body, JSON or of another kind, and returns when the server reads its body.
func (s *running) half(t *testing.T, token, line, body string, kind ...string) half {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.at.HTTP, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*patience)))
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", line, token, append(kind, "application/json")[0], len(body))
	require.NoError(t, err)
	h := half{conn, bufio.NewReader(conn)}
	require.Equal(t, http.StatusContinue, h.status(t))
	return h
}

// ends sends the body, and returns the status of the answer.
func (h half) ends(t *testing.T, body string) int {
	t.Helper()
	_, err := h.Write([]byte(body))
	require.NoError(t, err)
	return h.status(t)
}

// status reads the next answer, and returns its status.
func (h half) status(t *testing.T) int {
	t.Helper()
	answer, err := http.ReadResponse(h.from, nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// A request whose body arrives after its caller has lost the right does nothing.
func TestRevoke_EndsRequestsWithAnOpenBody(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	ann := s.grant(t, "user:ann", "scope:default", "admin publish subscribe read")
	const tier, event, overlap, worker, pull = `{"tier":"admin"}`, `{"path":"/a","type":"t"}`, `{"overlap":"0s"}`, `{"worker":"w"}`, durableAt + "/__ds/subscriptions/pull"
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/taken", wish(hook.URL), as(ann.token)...)
	list := s.half(t, ann.token, "PUT /v1/namespaces/default/acl/user:eve", tier)
	publish := s.half(t, ann.token, "POST /v1/namespaces/default/events", event)
	kept := s.half(t, ann.token, "PUT /v1/namespaces/default/event-types/t", `{}`)
	require.Equal(t, http.StatusCreated, kept.ends(t, `{}`), "while it has the right")

	bob := s.grant(t, "user:bob", "scope:default", "subscribe")
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", wish(hook.URL), as(bob.token)...)
	rotate := s.half(t, bob.token, "POST /v1/subscriptions/again/secret/rotate", overlap)
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/again", "", as(bob.token)...)
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", wish(hook.URL))
	require.Equal(t, http.StatusNotFound, rotate.ends(t, overlap), "the id is another principal's by now")

	s.must(t, http.StatusCreated, "PUT "+pull, `{"type":"pull-wake","pattern":"a/**","wake_stream":"a/wake"}`, as(ann.token)...)
	claim := s.half(t, ann.token, "POST "+pull+"/claim", worker)
	s.must(t, http.StatusNoContent, "DELETE "+pull, "", as(ann.token)...)
	require.Equal(t, http.StatusNotFound, claim.ends(t, worker), "it is gone by now")

	s.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	require.Equal(t, http.StatusUnauthorized, list.ends(t, tier))
	require.Equal(t, http.StatusUnauthorized, publish.ends(t, event))
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/default/acl/user:eve", "")
}

// A revocation through one server stops what another one sends.
func TestRevoke_ReachesEveryServerBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{})
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	servers := []*running{start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)}
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusServiceUnavailable} })
	clock := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusServiceUnavailable} })
	const subs = 12
	grants := make([]granted, subs)
	ids := make([]string, subs)
	for i := range subs {
		grants[i] = servers[i%2].grant(t, fmt.Sprintf("user:u%d", i), "scope:default", "subscribe")
		ids[i] = servers[(i+1)%2].made(t, grants[i].token, wish(hook.URL+"/"+strconv.Itoa(i), quick))
	}
	servers[0].made(t, servers[0].token, wish(clock.URL, `"pattern":"/clock"`, quick))
	servers[0].marked(t, "/a", "before")
	eventually(t, func() bool {
		seen := map[string]bool{}
		for _, r := range hook.Requests() {
			seen[r.Path] = true
		}
		return len(seen) == subs
	}, "all are served")
	for i, g := range grants {
		servers[i%2].must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	}
	sent := len(hook.Requests())
	servers[0].marked(t, "/clock", "tick")
	clock.Wait(10)
	require.LessOrEqual(t, len(hook.Requests()), sent+inKernel)
	for i, id := range ids {
		require.Equal(t, "cancelled access_revoked", servers[i%2].stateOf(t, id))
	}
}

// What is withheld from one is delivered to others, and does not hold up what comes after it.
func TestAccess_WithheldEventIsPassedOver(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	cleared, plain := hooktest.New(t, nil), hooktest.New(t, nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET","compartments":["finance"]}}`)
	ann, bob := s.grant(t, "user:ann", "scope:default", "subscribe read"), s.grant(t, "user:bob", "scope:default", "subscribe read")
	hers := s.made(t, ann.token, wish(cleared.URL))
	his := s.made(t, bob.token, wish(plain.URL))
	publish := func(label, mark string) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
			fmt.Sprintf(`{"specversion":"1.0","type":"t","source":"/s","id":%q,"path":"/a","dataclassification":%q,"data":{"mark":%q}}`, mark, label, mark))
	}
	publish("PUBLIC", "one")
	publish("SECRET/finance", "two")
	publish("PUBLIC", "three")
	cleared.Wait(3)
	plain.Wait(2)
	statusOf(t, s.api, his, idle)
	require.Equal(t, []string{"one", "two", "three"}, idsOf(cleared.Requests()))
	require.Equal(t, []string{"one", "three"}, idsOf(plain.Requests()))
	require.Equal(t, "active", s.stateOf(t, his))

	for _, line := range []string{"GET /v1/namespaces/default/events?pattern=/a", "GET /v1/subscriptions/" + his + "/events"} {
		require.NotContains(t, s.must(t, http.StatusOK, line, "", as(bob.token)...).text, "two", line)
	}
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions/"+hers+"/events", "", as(ann.token)...).text, "two")
	for _, line := range []string{"GET /v1/namespaces/default/events/two", "GET /v1/subscriptions/" + his + "/deliveries/two"} {
		there, absent := s.call(t, line, "", as(bob.token)...), s.call(t, strings.Replace(line, "two", "none", 1), "", as(bob.token)...)
		require.Equal(t, http.StatusNotFound, there.status)
		require.Equal(t, absent.status, there.status)
		require.Equal(t, absent.field(t, "error"), there.field(t, "error"), "what is concealed looks like what is not there: C14")
	}
}

// What is erased never leaves again, not to root either, and what is published later does.
func TestErase_EventNeverLeavesAgain(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	down := refusing()
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, func(r hooktest.Request) bool { return down.refuses(r) || strings.Contains(string(r.Body), "erased") }))
	id := s.made(t, s.token, wish(hook.URL, quick))
	s.marked(t, "/customers/7", "erased")
	s.marked(t, "/customers/8", "kept")
	hook.Wait(3) // the first is tried again and again
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/customers/7"}`)
	sent := strings.Count(bodies(hook), "erased")
	s.marked(t, "/customers/7", "later")
	eventually(t, func() bool { return strings.Contains(bodies(hook), "later") }, "what comes later arrives")
	statusOf(t, s.api, id, func(st sluice.Status) bool { return st.Parked == 0 })
	require.LessOrEqual(t, strings.Count(bodies(hook), "erased"), sent+inKernel)
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events", "").text, "erased")
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/tombstones", "").text, "/customers/7")
}

func bodies(hook *hooktest.Server) string {
	var b strings.Builder
	for _, r := range hook.Requests() {
		b.Write(r.Body)
	}
	return b.String()
}
