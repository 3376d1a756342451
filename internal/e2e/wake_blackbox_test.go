package e2e_test

import (
	"net/http"
	"testing"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/wakesuite"
)

// What S1 says of webhook wake subscriptions, seen over HTTP alone.
func TestWake_PassesTheSuiteOfS1(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.Anonymous = []string{"default"} })
	eventually(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusOK }, "it is ready")
	wakesuite.Run(t, wakesuite.Server{Base: s.at.HTTP + durableAt})
}
