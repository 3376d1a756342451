package main

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandsOf returns a directory with a sluice that was built without the race detector, if this one was built with it: the scripts
// run hundreds of commands, and each would compute four times as much before it begins. Tests that run commands and servers in their own
// process look for races in these.
func commandsOf(t *testing.T) (dir string, ok bool) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return "", false
	}
	dir = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "sluice"), ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir, true
}
