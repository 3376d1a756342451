package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// childProgram returns this program for servers in processes of their own: built without the race detector, if this one was built
// with it. These servers are killed under load, which is no way to learn of races, and would compute five times as much.
func childProgram(t *testing.T) string {
	t.Helper()
	file, err := plainSelf()
	require.NoError(t, err)
	return file
}

var plainSelf = sync.OnceValues(func() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Args[0], nil
	}
	var err error
	if plainDir, err = os.MkdirTemp("", "sluice-e2e-"); err != nil {
		return "", fmt.Errorf("build without the race detector: %w", err)
	}
	file := filepath.Join(plainDir, "e2e.test")
	out, err := exec.Command("go", "test", "-c", "-o", file, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build without the race detector: %w: %s", err, out)
	}
	return file, nil
})

// plainDir is where childProgram's is, to be removed at the end; "" if none was built.
var plainDir string
