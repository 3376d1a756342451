package schedulecmd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// A file beside the ID of a stored watch is refused instead of ignored.
func TestWatchTest_RefusesFileBesideID(t *testing.T) {
	t.Parallel()
	c := watchTestCmd{ID: "hot", watchFlags: watchFlags{File: "other.yaml"}}
	err := c.Run(t.Context(), &terminal.Session{Flags: terminal.Flags{Server: "http://127.0.0.1:1"}})
	require.ErrorAs(t, err, new(terminal.UsageError))
	require.ErrorContains(t, err, "--file")
}
