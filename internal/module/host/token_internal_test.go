package host

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// macs are keys of tokens.
type macs [][]byte

// WakeKeys returns the keys.
func (m macs) WakeKeys() [][]byte { return m }

// A token is valid until its attempt ends on the server that made it, and until its time is over on others. It says nothing of another
// module, of other files, or to another engine.
func TestToken_EndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	keys := macs{bytes.Repeat([]byte{1}, 32)}
	m := &module.Module{Name: "billing", Digest: "sha256:1", Manifest: module.Manifest{Handlers: []module.Handler{{
		ID: "run", Network: true, Read: []sluice.Pattern{"/a/**"}, Publish: []sluice.Publishable{{Pattern: "/b"}},
	}}}}
	replica := func(name string) *Host {
		h := New(Options{API: API{Keys: keys, Replica: name}, Now: func() time.Time { return now }})
		h.ready["billing"] = m
		return h
	}
	one, two := replica("1"), replica("2")
	handler := &m.Manifest.Handlers[0]
	w := &model.Handling{
		Module: "billing", Handler: "run", Subscription: "billing-run", Namespace: "acme", Event: "e", Correlation: "c", By: sluice.Caller{Principal: "user:ann", Grant: "g"},
		Publish: handler.Publish, Read: handler.Read,
	}
	text, leave, err := one.token(m, handler, w, now.Add(time.Minute))
	require.NoError(t, err)
	for _, h := range []*Host{one, two} {
		is, err := h.Handling(text)
		require.NoError(t, err)
		require.Equal(t, w, is)
	}
	denied := func(h *Host, text, want string) {
		t.Helper()
		_, err := h.Handling(text)
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err), text)
		require.Contains(t, err.Error(), want)
	}
	other, err := callbacktoken.Sign(keys, callbacktoken.Until(now.Add(time.Hour)))
	require.NoError(t, err)
	for _, text := range []string{"", "mod_", text + "x", strings.TrimPrefix(text, "mod_"), "mod_" + other, "mod_" + strings.Repeat("x", maxHandlingToken)} {
		denied(one, text, "is not that of an attempt")
	}
	m2 := *m
	m2.Digest = "sha256:2"
	two.ready["billing"] = &m2
	denied(two, text, "does not run on this server")
	two.ready["billing"] = m
	leave()
	denied(one, text, "has ended")
	now = now.Add(2 * time.Minute)
	denied(two, text, "has ended")

	none, leave, err := one.token(m, &module.Handler{Publish: handler.Publish}, w, now)
	require.NoError(t, err)
	require.Empty(t, none, "without network there is none")
	leave()
}
