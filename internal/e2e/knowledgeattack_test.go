package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// reports sends a worker's report about a job, and requires the refusal.
func (s *running) reports(t *testing.T, j *sluice.ClaimedJob, act, body, code string) {
	t.Helper()
	r := s.call(t, "POST /v1/namespaces/"+j.Namespace+"/jobs/"+j.ID+"/"+act, body)
	require.Equal(t, code, r.field(t, "error.code"), "%s %s: %s", act, body, r.text)
}

func tokenBody(token string) string { return fmt.Sprintf(`{"token":%q}`, token) }

// S3-95: a token is good for one claim of one job: not after another claim, not for another job, not in another namespace, and not
// if it was changed.
func TestRedTeam_JobTokenIsOfOneClaim(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/low/enrichment", `{"model":"test","dimensions":2}`)
	jobs := s.claims(t, "high", `{"worker":"a","max":2}`)
	require.Len(t, jobs, 2)
	low := s.claims(t, "low", `{"worker":"a","wait":"10s"}`)
	require.Len(t, low, 1)
	one, other := &jobs[0], &jobs[1]
	for _, token := range []string{other.Token, low[0].Token, "", "x", one.Token[:len(one.Token)-2] + "AA", strings.ToUpper(one.Token)} {
		for act, more := range map[string]string{"renew": "", "complete": `,"embedding":[1,0]`, "fail": `,"error":"e"`} {
			s.reports(t, one, act, fmt.Sprintf(`{"token":%q%s}`, token, more), "token_invalid")
		}
	}
	moved := *one
	moved.Namespace = "low"
	s.reports(t, &moved, "renew", tokenBody(one.Token), "token_invalid")

	s.must(t, http.StatusOK, "POST /v1/namespaces/high/jobs/"+one.ID+"/fail", tokenBody(one.Token))
	s.reports(t, one, "renew", tokenBody(one.Token), "fenced")
	again := s.claims(t, "high", `{"worker":"b","wait":"10s"}`)
	require.Len(t, again, 1)
	require.Equal(t, []any{one.ID, one.Generation + 1, 2}, []any{again[0].ID, again[0].Generation, again[0].Attempts})
	s.reports(t, one, "complete", fmt.Sprintf(`{"token":%q,"embedding":[1,0]}`, one.Token), "fenced")
	require.Equal(t, http.StatusNoContent, s.completes(t, &again[0], `"embedding":[0,1]`).status)
	s.reports(t, &again[0], "complete", fmt.Sprintf(`{"token":%q,"embedding":[1,0]}`, again[0].Token), "fenced")
	require.Equal(t, []string{again[0].Entry.ID + " mirrored m"}, s.neighbours(t, `{"vector":[0,1]}`))

	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/high/enrichment", "")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2}`)
	next := s.claims(t, "high", `{"worker":"c","max":2,"wait":"10s"}`)
	require.Len(t, next, 2, "all is to be embedded again")
	s.reports(t, other, "complete", fmt.Sprintf(`{"token":%q,"embedding":[1,0]}`, other.Token), "fenced")
}

// S3-95, S3-96: a worker must be cleared for the label of the subscriber, and may both read and subscribe in the whole namespace.
func TestRedTeam_WorkerIsClearedForTheSubscriber(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	uncleared := s.grant(t, "service:uncleared", "scope:high", "read subscribe")
	s.must(t, http.StatusOK, "PUT /v1/principals/service:worker", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	worker := s.grant(t, "service:worker", "scope:high", "read subscribe")
	reader := s.grant(t, "service:worker", "scope:high", "read")
	narrow := s.grant(t, "service:worker", "path:high/a/**", "read subscribe")
	elsewhere := s.grant(t, "service:worker", "scope:low", "read subscribe")
	jobs := s.claims(t, "high", `{"worker":"a"}`)
	for name, g := range map[string]granted{"uncleared": uncleared, "no subscribe": reader, "narrow": narrow, "elsewhere": elsewhere} {
		for line, body := range map[string]string{
			"POST /v1/namespaces/high/jobs/claim":                       `{"worker":"w"}`,
			"POST /v1/namespaces/high/jobs/" + jobs[0].ID + "/complete": fmt.Sprintf(`{"token":%q,"embedding":[1,0]}`, jobs[0].Token),
			"POST /v1/namespaces/high/jobs/" + jobs[0].ID + "/fail":     tokenBody(jobs[0].Token),
			"POST /v1/namespaces/high/jobs/" + jobs[0].ID + "/renew":    tokenBody(jobs[0].Token),
			"POST /v1/namespaces/high/jobs/" + jobs[0].ID + "/retry":    ``,
			"PUT /v1/namespaces/high/enrichment":                        `{"model":"mine","dimensions":1}`,
			"DELETE /v1/namespaces/high/enrichment":                     ``,
		} {
			r := s.call(t, line, body, as(g.token)...)
			require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, r.status, "%s: %s: %s", name, line, r.text)
		}
		if name == "no subscribe" {
			continue // a reader may search
		}
		for _, line := range []string{"GET /v1/namespaces/high/jobs", "GET /v1/namespaces/high/comparisons", "GET /v1/namespaces/high/comparisons/one", "POST /v1/namespaces/high/search"} {
			r := s.call(t, line, `{"vector":[1,0]}`, as(g.token)...)
			require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, r.status, "%s: %s: %s", name, line, r.text)
		}
	}
	r := s.must(t, http.StatusOK, "POST /v1/namespaces/high/jobs/claim", `{"worker":"w"}`, as(worker.token)...)
	require.Len(t, r.field(t, "jobs"), 1)
}

// An own entry with a label above a worker's clearance is left to others, and neither found nor compared by name.
func TestRedTeam_EntryAboveTheWorkerStaysHidden(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.embeds(t, 2, map[string]string{"one": "[1,0]", "two": "[0,1]"})
	s.must(t, http.StatusCreated, "POST /v1/namespaces/high/events",
		`{"specversion":"1.0","type":"t","source":"/s","id":"top","path":"/own","dataclassification":"TOP_SECRET","data":{"mark":"`+hidden+`"}}`)
	s.hasJobs(t, "", "entry.top pending")
	s.must(t, http.StatusOK, "PUT /v1/principals/service:worker", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	worker := as(s.grant(t, "service:worker", "scope:high", "read subscribe").token)
	require.Empty(t, s.must(t, http.StatusOK, "POST /v1/namespaces/high/jobs/claim", `{"worker":"w"}`, worker...).field(t, "jobs"))
	s.embeds(t, 1, map[string]string{"top": "[1,0.1]"})
	require.Equal(t, "top local ", s.neighbours(t, `{"vector":[1,0.1]}`)[0])
	found := s.must(t, http.StatusOK, "POST /v1/namespaces/high/search", `{"vector":[1,0.1],"top_k":3}`, worker...)
	require.NotContains(t, found.text, hidden)
	require.Len(t, found.field(t, "neighbours"), 2)
	require.Empty(t, s.must(t, http.StatusOK, "POST /v1/namespaces/high/jobs/claim", `{"worker":"w"}`, worker...).field(t, "jobs"), "a comparison has its content")
	for _, line := range []string{"GET /v1/namespaces/high/comparisons/top", "GET /v1/namespaces/high/jobs/entry.top", "POST /v1/namespaces/high/search"} {
		s.must(t, http.StatusNotFound, line, `{"entry":"top"}`, worker...)
	}

	// As the neighbour of an entry that the worker may see, it is hidden, too, with all that was found about it.
	s.publishes(t, "high", "/own own")
	s.hasJobs(t, "?type=embed", "entry.own pending")
	s.embeds(t, 1, map[string]string{"own": "[1,0.1]"})
	for _, j := range s.claims(t, "high", `{"worker":"w","max":20}`) {
		if j.Entry.ID == "own" {
			require.Equal(t, http.StatusNoContent, s.completes(t, &j, `"comparison":{"friction":1,"why":"`+j.Against.ID+`"}`).status)
		}
	}
	const of = "GET /v1/namespaces/high/comparisons/own"
	require.Equal(t, []any{3.0, 1.0}, []any{s.must(t, http.StatusOK, of, "").field(t, "expected_comparisons"), s.must(t, http.StatusOK, of, "").field(t, "max_friction")})
	is := s.must(t, http.StatusOK, of, "", worker...)
	require.Equal(t, []any{2.0, 0.3}, []any{is.field(t, "expected_comparisons"), is.field(t, "max_friction")})
	for _, line := range []string{of, "GET /v1/namespaces/high/comparisons", "GET /v1/namespaces/high/jobs"} {
		require.NotContains(t, s.must(t, http.StatusOK, line, "", worker...).text, `"top"`, line)
	}
}

// A result that is no vector of the configured dimensions, or no comparison, is refused and changes nothing.
func TestRedTeam_ResultsAreChecked(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	j := &s.claims(t, "high", `{"worker":"w"}`)[0]
	long := strings.Repeat("1,", sluice.MaxDimensions) + "1"
	for name, vector := range map[string]string{
		"too short": "[1]", "too long": "[1,2,3]", "empty": "[]", "far too long": "[" + long + "]", "zero": "[0,0]", "NaN": "[NaN,1]", "Infinity": "[Infinity,1]",
		"text NaN": `["NaN",1]`, "beyond float32": "[1e39,1]", "beyond float64": "[1e400,1]", "no array": `{"0":1}`, "text": `"AAAA"`, "nested": "[[1],[2]]", "null": "null",
	} {
		r := s.completes(t, j, `"embedding":`+vector)
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %s", name, r.text)
		require.Equal(t, "invalid_request", r.field(t, "error.code"), name)
		r = s.call(t, "POST /v1/namespaces/high/search", `{"vector":`+vector+`}`)
		require.Equal(t, http.StatusBadRequest, r.status, "search: %s: %s", name, r.text)
	}
	for _, result := range []string{`"comparison":{"friction":0.5}`, `"embedding":[1,0],"comparison":{"friction":0.5}`, `"embedding":[1,0],"model":"other"`} {
		require.Equal(t, http.StatusBadRequest, s.completes(t, j, result).status, result)
	}
	require.Equal(t, http.StatusNoContent, s.completes(t, j, `"embedding":[1,0]`).status, "the claim is still good")

	s.publishes(t, "high", "/own own")
	s.hasJobs(t, "?type=embed", "entry.own pending")
	s.embeds(t, 1, map[string]string{"own": "[1,0]"})
	j = &s.claims(t, "high", `{"worker":"w","types":["compare"]}`)[0]
	for _, comparison := range []string{`{"friction":1.1}`, `{"friction":-0.1}`, `{"friction":"0.5"}`, `{"friction":null}`, `{}`, `[]`, `0.5`, `null`, `{"friction":NaN}`, `{"friction":1e400}`} {
		require.Equal(t, http.StatusBadRequest, s.completes(t, j, `"comparison":`+comparison).status, comparison)
	}
	require.Equal(t, http.StatusBadRequest, s.completes(t, j, `"embedding":[1,0]`).status)
	require.Equal(t, http.StatusNoContent, s.completes(t, j, `"comparison":{"friction":0}`).status)
}
