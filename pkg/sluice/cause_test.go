package sluice_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestKindsOfPrincipals(t *testing.T) { // S4-13, S4-80
	t.Parallel()
	for principal, want := range map[sluice.Principal]string{
		"root": "system", "system": "system", "system:sync": "system", "user:ann": "user", "service:erp": "service_account", "ai_agent:7": "ai_agent",
		"": "unknown", "user": "unknown", "source:acme:/s": "unknown",
	} {
		require.Equal(t, want, sluice.AuthTypeOf(principal), principal)
	}
}

func TestAProducersNameIsShortAndText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "source:acme:/shop/ä", sluice.SourceProducer("acme", "/shop/ä"))
	for _, source := range []string{strings.Repeat("x", 257), "\xff", "a\nb"} {
		require.Regexp(t, `^source:acme:sha256:[0-9a-f]{64}$`, sluice.SourceProducer("acme", source))
	}
	require.NotEqual(t, sluice.SourceProducer("acme", "\xff"), sluice.SourceProducer("acme", "\xfe"))
}
