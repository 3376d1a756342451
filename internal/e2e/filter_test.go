package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-15, S4-24, S4-26, S4-46, C19: every dimension that is set must match, within one any value.
func TestFilter_ChoosesEvents(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	filters := map[string]struct {
		filter string
		want   []string
	}{
		"none":     {`{}`, []string{"a", "b", "c", "d", "e"}},
		"types":    {`{"types":["order.*"]}`, []string{"a", "b"}},
		"either":   {`{"types":["order.paid","stock.changed"]}`, []string{"b", "c"}},
		"sources":  {`{"sources":["/shop"]}`, []string{"a", "c"}},
		"subjects": {`{"subjects":["o-1"]}`, []string{"a"}},
		"labels":   {`{"labels":{"region":["eu","us"]}}`, []string{"a", "b"}},
		"data":     {`{"labels":{"currency":["EUR"]}}`, []string{"b", "c"}},
		"cel":      {`{"cel":"event.data.total > 100 && event.type.startsWith(\"order.\")"}`, []string{"a"}},
		"all":      {`{"types":["order.*"],"sources":["/shop"],"labels":{"region":["eu"]},"cel":"event.data.total > 100"}`, []string{"a"}},
		"missing":  {`{"cel":"event.data.nothing == 1"}`, nil},
	}
	for name, f := range filters {
		subscribe(t, api, wish(hook.URL+"/"+name, `"filter":`+f.filter, `"policy":{"ordering":"all"}`, `"id":"`+name+`"`))
	}
	stored, err := api.Publish(t.Context(), sluice.DefaultNamespace,
		sluice.Event{ID: "a", Path: "/p", Type: "order.created", Source: "/shop", Subject: "o-1", Extensions: map[string]string{"region": "eu"}, Data: []byte(`{"total":118.5}`)},
		sluice.Event{ID: "b", Path: "/p", Type: "order.paid", Source: "/till", Data: []byte(`{"total":3,"currency":"EUR","region":"us"}`)},
		sluice.Event{ID: "c", Path: "/p", Type: "stock.changed", Source: "/shop", Data: []byte(`{"total":500,"currency":"EUR"}`)},
		sluice.Event{ID: "d", Path: "/p", Type: "orders", Source: "/till", ContentType: "text/plain", Data: []byte("total > 100")},
		sluice.Event{ID: "e", Path: "/p", Type: "end", Source: "/end"},
	)
	require.NoError(t, err)
	got := map[string][]string{}
	total := 0
	for name := range filters {
		statusOf(t, api, name, func(st sluice.Status) bool { return idle(st) && st.AckFloor == stored[4].Seq })
		total += len(filters[name].want)
	}
	for _, r := range hook.Wait(total) {
		got[r.Path[1:]] = append(got[r.Path[1:]], idOf(r))
	}
	for name, f := range filters {
		require.Equal(t, f.want, got[name], name)
	}
}

// S4-06, S4-75, S4-78, S0-19, S0-20, S0-22, S0-24, S4-58, S4-59: what is unclear or unsafe is
// refused, and nothing is made of it.
func TestRequest_RefusesUnclearOrUnsafeOnes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const hook = "https://192.0.2.1/hook"
	s0 := func(more string) string { return `{"on_change":"webhook","webhook_url":"` + hook + `"` + more + `}` }
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"an unknown filter", wish(hook, `"filter":{"colour":["red"]}`), 422, "unknown_filter"},
		{"a filter that is not CEL", wish(hook, `"filter":{"cel":"event.data.total >"}`), 400, "invalid_request"},
		{"an unknown field", wish(hook, `"colour":"red"`), 400, "invalid_request"},
		{"neither pattern nor target", `{"endpoint":{"url":"` + hook + `"}}`, 422, "ambiguous_subscription"},
		{"pattern and target", s0(`,"target":"scope:default","pattern":"/a"`), 422, "ambiguous_subscription"},
		{"no target", s0(``), 400, "invalid_request"},
		{"a target of another kind", s0(`,"target":"garden:x"`), 400, "invalid_request"},
		{"an agent to wake", `{"target":"scope:default","on_change":"wake","wake_agent_id":"x"}`, 422, "wake_not_supported"},
		{"http", wish("http://192.0.2.1/hook"), 422, "insecure_url"},
		{"http in S0's shape", `{"target":"scope:default","on_change":"webhook","webhook_url":"http://192.0.2.1/"}`, 422, "insecure_url"},
		{"an address inside", wish("https://169.254.169.254/latest"), 422, "blocked_address"},
		{"a short secret", `{"pattern":"/a","endpoint":{"url":"https://example.com/","secret":"short"}}`, 422, "secret_too_short"},
		{"a credential for the endpoint", `{"pattern":"/a","endpoint":{"url":"https://example.com/","headers":{"Authorization":"Basic eA=="}}}`, 400, "invalid_request"},
		{"no namespace of that name", wish("http://127.0.0.1:1/", `"namespace":"nobody"`), 404, "not_found"},
	} {
		r := s.must(t, tt.status, "POST /v1/subscriptions", tt.body)
		require.Equal(t, tt.code, r.field(t, "error.code"), "%s: %s", tt.name, r.text)
		require.Equal(t, false, r.field(t, "ok"), tt.name)
		require.NotEmpty(t, r.field(t, "error.message"), tt.name)
		require.NotEmpty(t, r.field(t, "request_id"), tt.name)
	}
	require.JSONEq(t, `{"subscriptions":[],"next_cursor":""}`, s.must(t, http.StatusOK, "GET /v1/subscriptions", "").text)
}

// C41: where a subscription starts.
func TestSubscription_StartsAtItsPlace(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	put(t, api, "/a", 1, 2)
	put(t, api, "/b", 1, 1)
	third, err := api.Event(t.Context(), sluice.DefaultNamespace, "3")
	require.NoError(t, err)
	require.Equal(t, numbered("/b", 1), third.ID)
	var between time.Time
	eventually(t, func() bool { between = time.Now(); return between.After(third.Time.Add(20 * time.Millisecond)) }, "time goes by")
	put(t, api, "/b", 2, 2)

	want := map[string][]string{
		`"new"`:           {"a-3"},
		`"all"`:           {"a-1", "a-2", "b-1", "b-2", "a-3"},
		`3`:               {"b-1", "b-2", "a-3"},
		`"2"`:             {"a-2", "b-1", "b-2", "a-3"},
		`"last_per_path"`: {"a-2", "b-2", "a-3"},
		fmt.Sprintf("%q", between.UTC().Format(time.RFC3339Nano)): {"b-2", "a-3"},
	}
	paths := map[string]string{}
	total := 0
	for begin, list := range want {
		paths[begin] = fmt.Sprintf("/%d", len(paths))
		total += len(list)
		subscribe(t, api, wish(hook.URL+paths[begin], `"start":`+begin, `"policy":{"ordering":"all"}`))
	}
	put(t, api, "/a", 3, 3)
	got := map[string][]string{}
	for _, r := range hook.Wait(total) {
		got[r.Path] = append(got[r.Path], idOf(r))
	}
	for begin, list := range want {
		require.Equal(t, list, got[paths[begin]], "start %s", begin)
	}
}
