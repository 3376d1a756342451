package sluice_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPrincipal_HasKnownKinds(t *testing.T) { // S4-13, S4-80
	t.Parallel()
	for principal, want := range map[sluice.Principal]string{
		"root": "system", "system": "system", "system:sync": "system", "user:ann": "user", "service:erp": "service_account", "ai_agent:7": "ai_agent",
		"": "unknown", "user": "unknown", "service": "unknown", "ai_agent": "unknown", "source:acme:/s": "unknown",
	} {
		require.Equal(t, want, sluice.AuthTypeOf(principal), principal)
	}
}

func TestProducer_NameIsShortText(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "/shop/ä", strings.Repeat("x", 256)} {
		require.Equal(t, "source:acme:"+source, sluice.SourceProducer("acme", source))
	}
	for _, source := range []string{strings.Repeat("x", 257), "\xff", "a\nb"} {
		require.Regexp(t, `^source:acme:sha256:[0-9a-f]{64}$`, sluice.SourceProducer("acme", source))
	}
	require.NotEqual(t, sluice.SourceProducer("acme", "\xff"), sluice.SourceProducer("acme", "\xfe"))
}

// S4-80: what an event says of its producer itself is not believed.
func TestEvent_ProducerIsSaidByTheServer(t *testing.T) {
	t.Parallel()
	bare := sluice.Event{}
	bare.ProducedBy("user:ann", sluice.AuthUser)
	require.Equal(t, map[string]string{"authid": "user:ann", "authtype": "user"}, bare.Extensions)
	claims := sluice.Event{Extensions: map[string]string{"authid": "root", "authtype": "system", "authclaims": "all", "region": "eu"}}
	claims.ProducedBy("service:erp", sluice.AuthService)
	require.Equal(t, map[string]string{"authid": "service:erp", "authtype": "service_account", "region": "eu"}, claims.Extensions)
}
