package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// dearFilter returns a filter that exhausts its allowance on a list of 250 numbers; each n makes another expression of it.
func dearFilter(n int) string {
	return fmt.Sprintf(`"filter":{"cel":"event.data.l.map(x,event.data.l.map(y,x+y)).size()>%d"}`, 100_000+n)
}

func listOf(n int) string { return `{"l":[` + strings.TrimSuffix(strings.Repeat("7,", n), ",") + `]}` }

// Issue 13, attack 3: a subscription whose filter costs too much again and again is suspended, says why, and goes on where it
// stopped when it is resumed with a cheaper one.
func TestFilter_SuspendedIsResumed(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	id := s.made(t, s.token, wish(hook.URL, `"pattern":"/a/**"`, dearFilter(0)))
	for i := range 7 {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":"/a/b","id":"e%d","type":"t","data":%s}`, i, listOf(400)))
	}
	at := "/v1/subscriptions/" + id
	eventually(t, func() bool { return strings.HasPrefix(s.stateOf(t, id), "suspended") }, "it is suspended")
	require.Contains(t, s.must(t, http.StatusOK, "GET "+at, "").field(t, "reason"), "simplify it")
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions?state=suspended", "").text, id)
	require.Len(t, s.systemEvents(t, "subscription.suspended"), 1)
	s.must(t, http.StatusOK, "PATCH "+at, `{"filter":{"cel":null}}`)
	require.Contains(t, s.stateOf(t, id), "suspended ")
	s.must(t, http.StatusOK, "POST "+at+"/resume", "")
	require.Equal(t, []string{"e4", "e5", "e6"}, idsOf(hook.Wait(3)))
}

// Issue 13, attack 3: a principal has no more subscriptions than it may, with those to whom it gave parts of its grant.
func TestLimits_BoundAPrincipalsSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.SubscriptionsPerPrincipal = 2 })
	hook := hooktest.New(t, nil)
	eve := s.grant(t, "user:eve", "path:default/a/**", "subscribe")
	part := s.grant(t, "user:part", "path:default/a/**", "subscribe", eve.token)
	ann := s.grant(t, "user:ann", "path:default/a/**", "subscribe")
	body := func(n int) string { return wish(hook.URL+"/"+strconv.Itoa(n), `"pattern":"/a/**"`) }
	s.made(t, eve.token, body(1))
	s.made(t, part.token, body(2))
	for _, token := range []string{eve.token, part.token} {
		refused := s.must(t, http.StatusTooManyRequests, "POST /v1/subscriptions", body(3), as(token)...)
		require.Equal(t, "quota_exceeded", refused.field(t, "error.code"))
		require.Contains(t, refused.text, "user:eve has 2 subscriptions")
	}
	s.made(t, ann.token, body(4))
	for n := range 3 {
		s.made(t, s.token, body(10+n))
	}
}

// Issue 13, attack 4: a dry run does not count events on which the filter cannot be evaluated, and does not call that exact.
func TestDryRun_ReportsFailedEvaluations(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, n := range []int{400, 3, 20, 400} {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a/b","type":"t","data":`+listOf(n)+`}`)
	}
	cel := `"filter":{"cel":"event.data.l.map(x,event.data.l.map(y,x+y)).size()>10"}`
	id := s.made(t, s.token, wish(hooktest.New(t, nil).URL, `"pattern":"/a/**"`, cel))
	dry := func() string {
		return s.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/replay", `{"from":"-1","dry_run":true}`).text
	}
	counted := ""
	eventually(t, func() bool {
		counted = dry()
		return strings.Contains(counted, `"unevaluated":2`)
	}, "a slow machine counts fewer in its time")
	require.JSONEq(t, `{"count":1,"exact":false,"unevaluated":2}`, counted)
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"filter":{"cel":null}}`)
	require.JSONEq(t, `{"count":4,"exact":true,"unevaluated":0}`, dry())
}

// Issue 13, attack 4: a dry run pays for its filter as deliveries do, ends after a while, and a principal has one at a time.
func TestDryRun_IsBoundedInCost(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.FilterCostPerPrincipal = 1 })
	for range 3 {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a/b","type":"t","data":`+listOf(20)+`}`)
	}
	eve := s.grant(t, "user:eve", "path:default/a/**", "subscribe read")
	part := s.grant(t, "user:part", "path:default/a/**", "subscribe read", eve.token)
	ann := s.grant(t, "user:ann", "path:default/a/**", "subscribe read")
	dry := func(g granted, filter ...string) func() reply {
		id := s.made(t, g.token, wish(hooktest.New(t, nil).URL, append(filter, `"pattern":"/a/**"`)...))
		return func() reply {
			return s.call(t, "POST /v1/subscriptions/"+id+"/replay", `{"from":"-1","dry_run":true}`, as(g.token)...)
		}
	}
	slow, others, anns := dry(eve, dearFilter(0)), dry(part), dry(ann)
	first := make(chan reply, 1)
	go func() {
		r := slow()
		for r.status == http.StatusTooManyRequests { // it came while one of the other's was under way
			r = slow()
		}
		first <- r
	}()
	var refused reply
	eventually(t, func() bool { refused = others(); return refused.status == http.StatusTooManyRequests }, "there is one already")
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	trial := s.call(t, "POST /v1/namespaces/default/watches/test", `{"pattern":"/a/**"}`, as(part.token)...)
	require.Equal(t, http.StatusTooManyRequests, trial.status, trial.text)
	require.Equal(t, http.StatusOK, anns().status)
	r := <-first
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.Equal(t, false, r.field(t, "exact"), r.text)
	require.Equal(t, http.StatusOK, others().status, "it has ended")
}
