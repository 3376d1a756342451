package scripts_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const archiveName = "sluice_1.2.3_linux_amd64.tar.gz"

// archive writes an archive with a program, and checksums.txt beside it.
func archive(t *testing.T, program string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file, err := os.Create(filepath.Join(dir, archiveName))
	require.NoError(t, err)
	sum := sha256.New()
	packed := gzip.NewWriter(io.MultiWriter(file, sum))
	files := tar.NewWriter(packed)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: "sluice_1.2.3_linux_amd64/sluice", Mode: 0o755, Size: int64(len(program))}))
	_, err = io.WriteString(files, program)
	require.NoError(t, err)
	for _, c := range []io.Closer{files, packed, file} {
		require.NoError(t, c.Close())
	}
	sums := fmt.Sprintf("%064d  other.tar.gz\n%s  %s\n", 1, hex.EncodeToString(sum.Sum(nil)), archiveName)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "checksums.txt"), []byte(sums), 0o600))
	return dir
}

// install runs the script, which installs below dir/to.
func install(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return run(t, dir, "env", append([]string{"PREFIX=" + filepath.Join(dir, "to"), mustAbs(t, "install")}, args...)...)
}

func TestInstall_InstallsAVerifiedArchive(t *testing.T) { // issue 18
	t.Parallel()
	dir := archive(t, "#!/bin/sh\necho sluice 1.2.3\n")
	status, out, errs := install(t, dir, archiveName)
	require.Zero(t, status, errs)
	require.Contains(t, out, "installed sluice 1.2.3 as "+filepath.Join(dir, "to/bin/sluice"))
	info, err := os.Stat(filepath.Join(dir, "to/bin/sluice"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

func TestInstall_RefusesAnUnverifiedArchive(t *testing.T) { // issue 18
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"another content": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, archiveName), []byte("x"), 0o600))
		}, "another checksum"},
		"no checksums": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "checksums.txt")))
		}, "download it"},
		"not listed": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "checksums.txt"), nil, 0o600))
		}, "does not list"},
		"no archive": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, archiveName)))
		}, "there is no file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := archive(t, "#!/bin/sh\n")
			c.spoil(t, dir)
			status, _, errs := install(t, dir, archiveName)
			require.Equal(t, 1, status)
			require.Contains(t, errs, c.says)
			require.NoFileExists(t, filepath.Join(dir, "to/bin/sluice"))
		})
	}
	status, _, errs := install(t, archive(t, ""))
	require.Equal(t, 1, status)
	require.Contains(t, errs, "write the archive")
}

// `make release-snapshot` sets SLUICE_RELEASE to the directory of what it built.
func TestRelease_IsWholeAndInstalls(t *testing.T) { // issue 18
	t.Parallel()
	dir := os.Getenv("SLUICE_RELEASE")
	if dir == "" {
		t.Skip("make release-snapshot builds it")
	}
	names := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		return found
	}
	for _, kind := range []struct {
		pattern string
		count   int
	}{
		{"sluice_*_linux_*.tar.gz", 2},
		{"sluice_*_darwin_*.tar.gz", 2},
		{"sluice_*_windows_*.zip", 2},
		{"*.cdx.json", 6},
		{"*.deb", 2},
		{"*.rpm", 2},
		{"checksums.txt", 1},
		{"homebrew/Casks/sluice.rb", 1},
		{"scoop/sluice.json", 1},
	} {
		require.Len(t, names(kind.pattern), kind.count, kind.pattern)
	}
	_, listed, _ := run(t, dir, "tar", "-tzf", names("sluice_*_linux_amd64.tar.gz")[0])
	for _, file := range []string{"sluice", "LICENSE", "CHANGELOG.md", "config/example.yaml", "deploy/sluice.service", "install"} {
		require.True(t, slices.ContainsFunc(strings.Fields(listed), func(name string) bool { return strings.HasSuffix(name, "/"+file) }), "%s in %s", file, listed)
	}
	_, listed, _ = run(t, dir, "tar", "-tzf", names("sluice_*_darwin_arm64.tar.gz")[0])
	require.NotContains(t, listed, "sluice.service")
	for _, one := range names("*.cdx.json") {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(one), ".cdx.json"), "_")
		text, err := os.ReadFile(one)
		require.NoError(t, err)
		require.Contains(t, string(text), "@v"+parts[1]+"?goarch="+parts[3]+"\\u0026goos="+parts[2], "the program, its version and platform")
		require.Greater(t, strings.Count(string(text), `"licenses"`), 50)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for tool, list := range map[string][]string{"dpkg-deb": {"-c", names("*_" + runtime.GOARCH + ".deb")[0]}, "rpm": {"-qlp", names("*.rpm")[0]}} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not installed", tool)
			continue
		}
		status, listed, errs := run(t, dir, tool, list...)
		require.Zero(t, status, errs)
		for _, file := range []string{
			"/usr/bin/sluice", "/usr/lib/systemd/system/sluice.service", "/etc/sluice/config.yaml", "/usr/share/doc/sluice/copyright",
			"/usr/share/man/man1/sluice.1.gz", "/usr/share/bash-completion/completions/sluice",
		} {
			require.Contains(t, listed, file+"\n", list[1])
		}
	}
	status, out, errs := run(t, dir, "env", "PREFIX="+t.TempDir(), mustAbs(t, "install"), names("sluice_*_linux_" + runtime.GOARCH + ".tar.gz")[0])
	require.Zero(t, status, errs)
	require.Contains(t, out, "installed sluice ")
	if is, err := os.Stat("../.git"); err == nil && is.IsDir() { // Go does not know work trees
		require.Contains(t, out, "installed sluice v", "it knows its version")
	}
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(name)
	require.NoError(t, err)
	return abs
}
