package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// Entries without room in memory get no jobs and are not found; the status, searches and metrics say so.
func TestKnowledge_FullMemoryIsSeen(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.KnowledgeMemory = 1 << 20 })
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/enrichment", `{"model":"test","dimensions":8192,"top_k":0}`)
	for i := range 20 {
		s.publishes(t, "default", fmt.Sprintf("/a/%d e%d", i, i))
	}
	eventually(t, func() bool {
		is := s.must(t, http.StatusOK, "GET /v1/namespaces/default/enrichment", "")
		return is.field(t, "status.entries").(float64)+is.field(t, "status.not_held").(float64) == 20
	}, "all entries are known")
	is := s.must(t, http.StatusOK, "GET /v1/namespaces/default/enrichment", "")
	held := int(is.field(t, "status.entries").(float64))
	require.Positive(t, held)
	require.Less(t, held, 20)
	require.Contains(t, is.field(t, "status.problem"), "limits.knowledge_memory")
	require.Len(t, s.claims(t, "default", `{"worker":"w","max":100}`), held)
	found := s.must(t, http.StatusOK, "POST /v1/namespaces/default/search", `{"vector":[1`+strings.Repeat(",0", 8191)+`]}`)
	require.InDelta(t, 20-held, found.field(t, "not_held"), 0)
	require.Contains(t, found.field(t, "problem"), "they get no jobs and are not found")
	require.Contains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, fmt.Sprintf(`sluice_enrichment_entries_not_held{namespace="default"} %d`, 20-held))
}
