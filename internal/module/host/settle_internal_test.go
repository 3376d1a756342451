//go:build linux

package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
)

// A change is reported, and the leases are divided anew, before other modules are copied. An older approval than the present one is ignored.
func TestHost_ReportsChangesBeforeCopying(t *testing.T) {
	t.Parallel()
	dirs, elsewhere := t.TempDir(), t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "echo first")
	h.approves(t)
	writes(t, elsewhere, "z", "exit 0")
	z, err := module.Open(filepath.Join(elsewhere, "z"))
	require.NoError(t, err)
	h.Set(t.Context(), "z", &Approval{Digest: z.Digest, Revision: 2})

	writes(t, dirs, "m", "echo another")
	writes(t, dirs, "z", "exit 0")
	moved := 0
	h.opts.Moved = func() { moved++ }
	h.opts.Changed = func(_ context.Context, name string, _ Approval, _ []string) error {
		require.Equal(t, []any{"m", 1, 0}, []any{name, moved, len(h.Ready())})
		return nil
	}
	h.Look(t.Context())
	require.Equal(t, []any{2, []string{"z"}}, []any{moved, h.Ready()})
	h.Set(t.Context(), "z", &Approval{Digest: z.Digest, Disabled: true, Revision: 1})
	require.Equal(t, []string{"z"}, h.Ready())
	h.Set(t.Context(), "z", &Approval{Digest: z.Digest, Disabled: true, Revision: 3})
	require.Empty(t, h.Ready())
}

// Files that change while their first copy is made are a change, though a scan sees them before the copy may run.
func TestHost_ReportsChangesDuringTheFirstCopying(t *testing.T) {
	t.Parallel()
	dirs, r := t.TempDir(), &reports{}
	h := open(t, dirs, r)
	writes(t, dirs, "m", "echo one")
	h.Look(t.Context())
	m, err := h.Found("m")
	require.NoError(t, err)
	h.approvals["m"] = Approval{Digest: m.Digest, Files: m.Files}
	writes(t, dirs, "m", "echo second")
	h.Look(t.Context()) // as enter is about to copy
	require.Empty(t, r.files)
	h.enter(t.Context(), m)
	require.Empty(t, h.Ready())
	for range 2 {
		h.Look(t.Context())
	}
	require.Equal(t, [][]string{{"handlers/run"}}, r.files)
}

// The digest that ran last is never half written.
func TestHost_ReplacesTheLastDigestAtOnce(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "echo one")
	first := h.approves(t)
	kept := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, os.Link(h.lastFile("m"), kept))
	writes(t, dirs, "m", "echo second")
	second := h.approves(t)
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, []string{first.Digest, second.Digest}, []string{string(text), h.ranLast("m")})
	h.Set(t.Context(), "m", &Approval{Digest: second.Digest, Revision: 2})
	h.setFound(t.Context(), "m", &Approval{Digest: first.Digest, Revision: 1})
	require.Equal(t, second.Digest, h.ranLast("m"), "a later approval stands")
}
