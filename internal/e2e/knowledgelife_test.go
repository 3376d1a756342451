package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// knowledgeOf returns the subjects of what is stored of a namespace.
func (s *running) knowledgeOf(t *testing.T, ns string) (subjects []string) {
	t.Helper()
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).Knowledge())
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(jsNames(t).KnowledgeSubjects(ns)))
	require.NoError(t, err)
	for subject := range info.State.Subjects {
		subjects = append(subjects, subject)
	}
	return subjects
}

// What was embedded is found after a restart, and a claim of before it can be completed.
func TestKnowledge_SurvivesARestart(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2,"lease":"5m"}`)
	s.embeds(t, 1, map[string]string{"one": "[1,0]"})
	j := s.claims(t, "high", `{"worker":"w"}`)
	require.Len(t, j, 1)
	s.stop(t)
	s = start(t, s.dir, nil)
	require.Equal(t, []string{"one mirrored m"}, s.neighbours(t, `{"vector":[1,1]}`))
	s.hasJobs(t, "", "mirrored.m.two claimed")
	require.Equal(t, http.StatusNoContent, s.completes(t, &j[0], `"embedding":[0,1]`).status)
	require.Equal(t, []string{"two mirrored m", "one mirrored m"}, s.neighbours(t, `{"vector":[0,1]}`))
}

// S3-82, S3-131: another model embeds everything again, own and mirrored; until then nothing of the former one is found, and what
// was compared of the same content stays.
func TestKnowledge_AnotherModelEmbedsAllAgain(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.embeds(t, 2, map[string]string{"one": "[1,0]", "two": "[0,1]"})
	s.publishes(t, "high", "/own own")
	s.hasJobs(t, "", "entry.own pending")
	s.embeds(t, 1, map[string]string{"own": "[1,0]"})
	s.comparesAcross(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"other","dimensions":3}`)
	s.hasJobs(t, "", "entry.own pending", "mirrored.m.one pending", "mirrored.m.two pending")
	require.Empty(t, s.neighbours(t, `{"vector":[1,0,0]}`))
	is := s.must(t, http.StatusOK, "GET /v1/namespaces/high/comparisons/own", "")
	require.Equal(t, []any{1.0, true}, []any{is.field(t, "completed_comparisons"), is.field(t, "needs_review")})
	s.embeds(t, 3, map[string]string{"own": "[1,0,0]", "one": "[1,0,0]", "two": "[0,1,0]"})
	require.Len(t, s.neighbours(t, `{"vector":[1,0,0]}`), 3)
	s.hasJobs(t, "") // own was embedded first, so that it has no neighbours now
}

// S3-47, S3-57, S3-59: a revision at the source is embedded anew, a deletion is not found any more; an own event likewise.
func TestKnowledge_FollowsRevisionsAndDeletions(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2,"top_k":0}`)
	s.publishes(t, "high", "/own own")
	s.embeds(t, 3, map[string]string{"one": "[1,0]", "two": "[0,1]", "own": "[1,0.1]"})
	s.publishes(t, "low", "/a/1 one-b of one")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/a/2"}`)
	s.syncs(t)
	s.hasJobs(t, "", "mirrored.m.one pending")
	require.Equal(t, []string{"own local "}, s.neighbours(t, `{"vector":[1,0]}`), "the revised one is not known by its former content")
	s.embeds(t, 1, map[string]string{"one-b": "[0,1]", "one": "[0,1]"})
	require.Equal(t, []string{"one-b mirrored m", "own local "}, s.neighbours(t, `{"vector":[0,1]}`))

	s.publishes(t, "high", "/own own-b of own")
	s.hasJobs(t, "", "entry.own pending")
	late := s.claims(t, "high", `{"worker":"w"}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/high/tombstones", `{"path":"/own"}`)
	s.hasJobs(t, "")
	s.reports(t, &late[0], "complete", fmt.Sprintf(`{"token":%q,"embedding":[1,0]}`, late[0].Token), "fenced")
	require.Equal(t, []string{"one-b mirrored m"}, s.neighbours(t, `{"vector":[0,1]}`))
}

// S3-94: a namespace without an enrichment has no jobs and stores nothing, and with it goes everything.
func TestKnowledge_IsOffUnlessConfigured(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.publishes(t, "low", "/x x")
	for _, line := range []string{"GET /v1/namespaces/low/enrichment", "POST /v1/namespaces/low/jobs/claim", "POST /v1/namespaces/low/search", "GET /v1/namespaces/low/jobs", "GET /v1/namespaces/none/enrichment"} {
		body := map[string]string{"POST /v1/namespaces/low/jobs/claim": `{"worker":"w"}`, "POST /v1/namespaces/low/search": `{"vector":[1,0]}`}[line]
		require.Equal(t, "not_found", s.must(t, http.StatusNotFound, line, body).field(t, "error.code"), line)
	}
	require.Empty(t, s.knowledgeOf(t, "low"))
	s.embeds(t, 2, map[string]string{"one": "[1,0]", "two": "[0,1]"})
	require.Len(t, s.knowledgeOf(t, "high"), 2)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/high/enrichment", "")
	require.Empty(t, s.knowledgeOf(t, "high"))
	s.must(t, http.StatusNotFound, "DELETE /v1/namespaces/high/enrichment", "")

	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2}`)
	s.embeds(t, 1, map[string]string{"one": "[1,0]"})
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/high", "")
	require.Empty(t, s.knowledgeOf(t, "high"))
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high", `{}`)
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/high/enrichment", "")
}

// A configuration that makes no sense is refused, and one that was changed meanwhile.
func TestKnowledge_ConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const line = "PUT /v1/namespaces/default/enrichment"
	for _, body := range []string{
		`{}`, `{"model":"m"}`, `{"dimensions":2}`, `{"model":"m","dimensions":0}`, `{"model":"m","dimensions":8193}`, `{"model":"m","dimensions":2,"top_k":101}`, `{"model":"m","dimensions":2,"top_k":-1}`,
		`{"model":"m","dimensions":2,"review_above":1.1}`, `{"model":"m","dimensions":2,"lease":"0.5s"}`, `{"model":"m","dimensions":2,"lease":"1h"}`, `{"model":"m","dimensions":2,"max_attempts":-1}`,
		`{"model":"m","dimensions":2,"pattern":"x"}`, `{"model":"m","dimensions":2,"other":1}`,
	} {
		require.Equal(t, "invalid_request", s.must(t, http.StatusBadRequest, line, body).field(t, "error.code"), body)
	}
	s.must(t, http.StatusNotFound, "PUT /v1/namespaces/none/enrichment", `{"model":"m","dimensions":2}`)
	r := s.must(t, http.StatusOK, line, `{"model":"m","dimensions":2,"top_k":0,"review_above":0}`)
	require.Equal(t, []any{0.0, 0.0, "/**", "30s", 5.0, "root"}, []any{
		r.field(t, "top_k"), r.field(t, "review_above"), r.field(t, "pattern"), r.field(t, "lease"), r.field(t, "max_attempts"), r.field(t, "updated_by"),
	})
	s.must(t, http.StatusPreconditionFailed, line, `{"model":"n","dimensions":2}`, "If-Match", `"99"`)
	for _, body := range []string{`{}`, `{"worker":"w","max":101}`, `{"worker":"w","wait":"1m"}`, `{"worker":"w","types":["x"]}`, `{"worker":"w","max":-1}`} {
		s.must(t, http.StatusBadRequest, "POST /v1/namespaces/default/jobs/claim", body)
	}
	for _, body := range []string{`{}`, `{"vector":[1,0],"entry":"e"}`, `{"vector":[1,0],"top_k":101}`, `{"vector":[1,0],"source":"x"}`, `{"vector":[1,0],"subscription_id":"m"}`} {
		s.must(t, http.StatusBadRequest, "POST /v1/namespaces/default/search", body)
	}
	s.must(t, http.StatusNotFound, "POST /v1/namespaces/default/search", `{"entry":"none"}`)
}

// A job that fails is tried again by the admin's order, and by itself until its attempts are over.
func TestKnowledge_FailedJobIsListedAndRetried(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2,"max_attempts":1}`)
	j := &s.claims(t, "high", `{"worker":"w"}`)[0]
	at := "POST /v1/namespaces/high/jobs/" + j.ID
	s.must(t, http.StatusConflict, at+"/retry", "")
	r := s.must(t, http.StatusOK, at+"/fail", fmt.Sprintf(`{"token":%q,"error":"out of memory"}`, j.Token))
	require.Equal(t, []any{"failed", "out of memory", 1.0}, []any{r.field(t, "state"), r.field(t, "error"), r.field(t, "attempts")})
	s.hasJobs(t, "?state=failed", j.ID+" failed")
	require.Equal(t, "out of memory", s.must(t, http.StatusOK, "GET /v1/namespaces/high/jobs/"+j.ID, "").field(t, "error"))
	other := s.claims(t, "high", `{"worker":"w","max":10}`)
	require.Len(t, other, 1, "a failed job is not given out")
	require.NotEqual(t, j.ID, other[0].ID)
	require.Equal(t, "pending", s.must(t, http.StatusOK, at+"/retry", "").field(t, "state"))
	again := s.claims(t, "high", `{"worker":"w"}`)
	require.Equal(t, j.ID, again[0].ID)
	s.must(t, http.StatusNotFound, "POST /v1/namespaces/high/jobs/none/retry", "")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/high/jobs/none", "")
}
