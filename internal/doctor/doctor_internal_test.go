package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/datadir"
)

// S4-28: a listener that is open to a network does not stay unnoticed.
func TestDoctor_WarnsOfAnOpenListener(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, info, result, detail string }{
		{"nats://127.0.0.1:4222", `{}`, "ok", "responds"},
		{"nats://[::1]:4222", `{}`, "ok", "responds"},
		{"nats://localhost:4222", `{"auth_required":true}`, "ok", "responds"},
		{"nats://0.0.0.0:4222", `{}`, "warn", "without a login"},
		{"nats://127.0.0.1:4222,nats://10.0.0.7:4222", `{"tls_required":true}`, "warn", "without a login"},
		{"nats://0.0.0.0:4222", `{"auth_required":true}`, "warn", "without TLS"},
		{"tls://nats.example:4222", `{"auth_required":true,"tls_required":true}`, "ok", "responds"},
		{"nats://0.0.0.0:4222", `?`, "fail", "cannot be read"},
	} {
		e := &examination{addresses: datadir.Addresses{NATS: c.address}}
		e.checkDoor(c.info)
		require.Len(t, e.findings, 1)
		require.Equal(t, []string{"nats", c.result}, []string{e.findings[0].Check, e.findings[0].Result}, c.address)
		require.Contains(t, e.findings[0].Detail, c.detail, c.address)
	}
}

func TestDoctor_WarnsOfUnencryptedTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, result, detail string }{
		{"http://127.0.0.1:8080", "ok", "ready after 1ms"},
		{"http://[::]:8080", "warn", "set http.tls"},
		{"http://sluice.example", "warn", "can be read in transit to http://sluice.example"},
		{"https://sluice.example", "ok", "ready after 1ms"},
	} {
		e := &examination{addresses: datadir.Addresses{HTTP: c.address}}
		e.noteReady(time.Millisecond)
		require.Len(t, e.findings, 1)
		require.Equal(t, []string{"server", c.result}, []string{e.findings[0].Check, e.findings[0].Result}, c.address)
		require.Contains(t, e.findings[0].Detail, c.detail, c.address)
	}
}
