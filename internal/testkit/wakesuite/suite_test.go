package wakesuite_test

import (
	"os"
	"testing"

	"github.com/sluice-io/sluice/internal/testkit/wakesuite"
)

// TestSuite_PassesOnAServer runs the suite against the server that SLUICE_WAKE_URL names; with SLUICE_WAKE_TOKEN if it
// wants a token.
func TestSuite_PassesOnAServer(t *testing.T) {
	t.Parallel()
	base := os.Getenv("SLUICE_WAKE_URL")
	if base == "" {
		t.Skip("SLUICE_WAKE_URL names no server, like http://127.0.0.1:8080/streams/default")
	}
	wakesuite.Run(t, wakesuite.Server{Base: base, Token: os.Getenv("SLUICE_WAKE_TOKEN")})
}
