package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// claims claims jobs as root, and returns them.
func (s *running) claims(t *testing.T, ns, body string) []sluice.ClaimedJob {
	t.Helper()
	var claimed struct{ Jobs []sluice.ClaimedJob }
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "POST /v1/namespaces/"+ns+"/jobs/claim", body).text), &claimed))
	return claimed.Jobs
}

// completes reports the result of a job.
func (s *running) completes(t *testing.T, j *sluice.ClaimedJob, result string) reply {
	t.Helper()
	return s.call(t, "POST /v1/namespaces/"+j.Namespace+"/jobs/"+j.ID+"/complete", fmt.Sprintf(`{"token":%q,%s}`, j.Token, result))
}

// embeds does n embedding jobs with the vectors of their entries.
func (s *running) embeds(t *testing.T, n int, vectors map[string]string) {
	t.Helper()
	for range n {
		jobs := s.claims(t, "high", `{"worker":"w","types":["embed","embed_mirrored"],"wait":"10s"}`)
		require.Len(t, jobs, 1)
		require.Contains(t, vectors, jobs[0].Entry.ID)
		require.Equal(t, http.StatusNoContent, s.completes(t, &jobs[0], `"embedding":`+vectors[jobs[0].Entry.ID]).status)
	}
}

// neighbours returns the results of a search, as "id source mirror".
func (s *running) neighbours(t *testing.T, body string) (all []string) {
	t.Helper()
	var found struct {
		Neighbours []sluice.Neighbour
	}
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "POST /v1/namespaces/high/search", body).text), &found))
	for _, n := range found.Neighbours {
		all = append(all, fmt.Sprintf("%s %s %s", n.Item.Change.Event.ID, n.Item.Source, n.Item.Subscription))
	}
	return all
}

// enriched is a namespace "high" with the mirror m of "low", which has two entries, and an enrichment.
func enriched(t *testing.T) *running {
	t.Helper()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a/1 one", "/a/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high/enrichment", `{"model":"test","dimensions":2}`)
	return s
}

// S3-14, S3-23, S3-28, S3-47, S3-75…81, S3-83…93, S3-111, S3-112, S3-115, S3-135, S3-138, S3-148: from a mirrored entry to a
// contradiction that needs a review.
func TestKnowledge_CrossesTheBoundary(t *testing.T) {
	t.Parallel()
	s := enriched(t)
	vectors := map[string]string{"one": "[1,0]", "two": "[0,1]", "own": "[1,0.1]"}
	s.embeds(t, 1, vectors)
	require.Equal(t, []string{"one mirrored m"}, s.neighbours(t, `{"vector":[1,1]}`), "the other has no embedding")

	s.publishes(t, "high", "/own own")
	s.hasJobs(t, "?type=embed", "entry.own pending")
	jobs := s.claims(t, "high", `{"worker":"w","max":10}`)
	require.Len(t, jobs, 2)
	require.Equal(t, []any{"own", 30, "two", 25}, []any{jobs[0].Entry.ID, jobs[0].Priority, jobs[1].Entry.ID, jobs[1].Priority}, "S3-84")
	require.JSONEq(t, `{"text":"two"}`, string(jobs[1].Item.Change.Event.Data), "S3-21")
	require.Equal(t, sluice.LevelSecret, jobs[1].Item.Label.Level)
	require.Equal(t, http.StatusNoContent, s.completes(t, &jobs[1], `"embedding":[0,1]`).status)
	s.hasJobs(t, "", "entry.own claimed") // S3-85: a mirrored embedding starts nothing
	require.Equal(t, http.StatusNoContent, s.completes(t, &jobs[0], `"embedding":[1,0.1]`).status)
	require.Equal(t, []string{"one mirrored m", "two mirrored m"}, s.neighbours(t, `{"entry":"own"}`))
	require.Equal(t, []string{"own local "}, s.neighbours(t, `{"vector":[0,1],"source":"local"}`))

	s.comparesAcross(t)

	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	eventually(t, func() bool { return len(s.neighbours(t, `{"vector":[0,1]}`)) == 1 }, "only the own entry is left")
	is := s.must(t, http.StatusOK, "GET /v1/namespaces/high/comparisons/own", "")
	require.Equal(t, []any{2.0, 1.0, 0.9 * 0.3}, []any{is.field(t, "expected_comparisons"), is.field(t, "completed_comparisons"), is.field(t, "max_friction")}, "S3-112")
	failed := s.must(t, http.StatusOK, "GET /v1/namespaces/high/jobs?state=failed", "").text
	require.Contains(t, failed, `"error":"subscription deleted"`, "S3-111")
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/low/observe?since=2", "").field(t, "items"), "S3-138: the source learns nothing")
}

// hasJobs waits until the jobs of a list are these, as "id state".
func (s *running) hasJobs(t *testing.T, query string, want ...string) {
	t.Helper()
	var got []string
	eventually(t, func() bool {
		var list struct{ Jobs []sluice.Job }
		require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/namespaces/high/jobs"+query, "").text), &list))
		got = nil
		for _, j := range list.Jobs {
			got = append(got, j.ID+" "+string(j.State))
		}
		return slices.Equal(got, want)
	}, fmt.Sprint("the jobs ", want))
}

// comparesAcross compares the entry "own" with one of its two mirrored neighbours: S3-87…93.
func (s *running) comparesAcross(t *testing.T) {
	t.Helper()
	jobs := s.claims(t, "high", `{"worker":"w","max":10}`)
	require.Len(t, jobs, 2, "S3-88")
	at := slices.IndexFunc(jobs, func(j sluice.ClaimedJob) bool { return j.Against.ID == "one" })
	j := &jobs[at]
	require.Equal(t, []any{sluice.JobCompare, 20, true, 0.3, "m"}, []any{j.Type, j.Priority, j.CrossBoundary, j.DiscountFactor, j.Against.Subscription})
	require.JSONEq(t, `{"text":"own"}`, string(j.Item.Change.Event.Data))
	require.JSONEq(t, `{"text":"one"}`, string(j.With.Change.Event.Data))
	require.Equal(t, http.StatusNoContent, s.completes(t, j, `"comparison":{"friction":0.9,"why":"one <says> so"}`).status)
	is := s.must(t, http.StatusOK, "GET /v1/namespaces/high/comparisons/own", "")
	require.Equal(t, []any{2.0, 1.0, 0.9 * 0.3, true, "SECRET"}, []any{
		is.field(t, "expected_comparisons"), is.field(t, "completed_comparisons"), is.field(t, "max_friction"), is.field(t, "needs_review"), is.field(t, "label.level"),
	}, "S3-91, S3-93, S3-139")
	require.Contains(t, is.text, `"effective_friction":0.27,"discount_factor":0.3`)
	all, ok := is.field(t, "comparisons").([]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{"friction": 0.9, "why": "one <says> so"}, all[0].(map[string]any)["comparison"], "S3-92")
	require.Len(t, s.must(t, http.StatusOK, "GET /v1/namespaces/high/comparisons?needs_review=true", "").field(t, "entries"), 1)
}
