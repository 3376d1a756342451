package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A job that one replica gave out is reported to the other, also after the first has ended and the NATS server that led the
// stream of results with it: nothing is lost, and the other finds all.
func TestKnowledge_JobsOutliveAReplicaAndItsLeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes three servers")
	}
	cluster := natstest.NewCluster(t)
	outside := func(c *config.Config) { c.NATS.URL, c.NATS.Replicas = cluster.URL(), 3 }
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	one.must(t, http.StatusOK, "PUT /v1/namespaces/default/enrichment", `{"model":"test","dimensions":2,"top_k":0,"lease":"5m"}`)
	one.publishes(t, "default", "/a/0 e0", "/a/1 e1", "/a/2 e2")
	var jobs []sluice.ClaimedJob
	for len(jobs) < 3 {
		jobs = append(jobs, one.claims(t, "default", `{"worker":"w","max":3,"wait":"10s"}`)...)
	}
	done := func(s *running, j *sluice.ClaimedJob) {
		t.Helper()
		eventually(t, func() bool { // 503 until there is another leader
			is := s.completes(t, j, `"embedding":[1,0]`)
			require.Contains(t, []int{http.StatusNoContent, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInternalServerError}, is.status, is.text)
			return is.status == http.StatusNoContent || is.status == http.StatusConflict // it was stored, and the response was lost
		}, "the report is taken")
	}
	finds := func(s *running, n int) {
		t.Helper()
		eventually(t, func() bool {
			is := s.call(t, "POST /v1/namespaces/default/search", `{"vector":[1,1]}`)
			if is.status != http.StatusOK {
				return false
			}
			all, ok := is.field(t, "neighbours").([]any)
			return ok && len(all) == n
		}, fmt.Sprint(n, " neighbours"))
	}
	done(two, &jobs[0])
	finds(one, 1)
	finds(two, 1)

	cluster.StopLeader(t, jsNames(t).Knowledge())
	one.stop(t)
	done(two, &jobs[1])
	finds(two, 2)
	eventually(t, func() bool {
		is := two.call(t, "POST /v1/namespaces/default/jobs/"+jobs[2].ID+"/fail", fmt.Sprintf(`{"token":%q,"error":"again"}`, jobs[2].Token))
		return is.status == http.StatusOK || is.status == http.StatusConflict
	}, "the failure is taken")
	var again []sluice.ClaimedJob
	for len(again) == 0 {
		again = two.claims(t, "default", `{"worker":"v","wait":"10s"}`)
	}
	require.Equal(t, []any{jobs[2].ID, uint64(2)}, []any{again[0].ID, again[0].Generation})
	done(two, &again[0])
	finds(two, 3)
}
