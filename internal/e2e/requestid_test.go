package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// One id leads from any answer to the ledger and back.
func TestRequestID_IsInAnswerAndLedger(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.HTTP.MaxBody = 1000
		c.HTTP.AuthFailures.Burst, c.HTTP.AuthFailures.Every = 1, sluice.Duration(time.Hour)
	})
	nobody := []string{"Authorization", "Bearer x"}
	for _, tt := range []struct {
		id, line, body string
		headers        []string
		status         int
	}{
		{"made", "PUT /v1/namespaces/acme", "{}", nil, http.StatusCreated},
		{"no-json", "PUT /v1/namespaces/acme", "{", nil, http.StatusBadRequest},
		{"nobody", "GET /v1/namespaces", "", nobody, http.StatusUnauthorized},
		{"nobody-again", "GET /v1/namespaces", "", nobody, http.StatusTooManyRequests},
		{"no-namespace", "GET /v1/namespaces/none", "", nil, http.StatusNotFound},
		{"nothing", "GET /v1/nothing", "", nil, http.StatusNotFound},
		{"no-method", "DELETE /v1/capabilities", "", nil, http.StatusMethodNotAllowed},
		{"too-large", "PUT /v1/namespaces/acme", strings.Repeat("x", 1001), nil, http.StatusRequestEntityTooLarge},
	} {
		r := s.must(t, tt.status, tt.line, tt.body, append([]string{"X-Request-Id", tt.id}, tt.headers...)...)
		require.Equal(t, tt.id, r.header.Get("X-Request-Id"), tt.id)
		if tt.status >= http.StatusBadRequest {
			require.Equal(t, tt.id, r.field(t, "request_id"), tt.id)
		}
	}
	made := s.entries(t, client.AuditQuery{Resource: "acme"})
	require.Len(t, made, 1, "what was refused changed nothing")
	require.Equal(t, "made", made[0].RequestID)
}
