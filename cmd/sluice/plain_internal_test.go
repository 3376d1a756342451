package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandsOf returns a directory with a sluice whose servers are this binary and whose other commands were built without the
// race detector, if this one was built with it: the scripts run hundreds, and each would compute four times as much before it begins.
// Tests that run commands in their own process look for races in these.
func commandsOf(t *testing.T) (dir string, ok bool) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return "", false
	}
	raced, err := exec.LookPath("sluice")
	require.NoError(t, err)
	dir = t.TempDir()
	plain := filepath.Join(dir, "plain")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", plain, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in\n*' serve '*|*' demo '*|*' listen '*) exec '%s' \"$@\" ;;\nesac\nexec '%s' \"$@\"\n", raced, plain)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sluice"), []byte(script), 0o700))
	return dir, true
}
