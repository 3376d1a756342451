package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"
)

// isolated is a command that runs another one in a network of its own, of which the loopback is up: all ports are free, and
// nothing else can be reached.
func isolated() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err == nil {
		var lo *unix.Ifreq
		if lo, err = unix.NewIfreq("lo"); err == nil {
			lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
			err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
		}
	}
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
	os.Exit(1)
}

// screen is the first screen of README.md: the commands of each terminal.
func screen(t *testing.T) (terminals []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	require.NoError(t, err)
	section := sectionOf(string(text), "first-webhook")
	count := 0
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		terminals = append(terminals, block[1])
		count += strings.Count(block[1], "\n")
	}
	require.LessOrEqual(t, count, 5, "commands")
	require.Len(t, terminals, 3)
	return terminals
}

// release returns a directory with the archive of this platform: that of `make release-snapshot`, else one of this program
// with the files that a release has.
func release(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if built := os.Getenv("SLUICE_RELEASE"); built != "" {
		found, err := filepath.Glob(filepath.Join(built, "sluice_*_linux_"+runtime.GOARCH+".tar.gz"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NoError(t, os.Symlink(found[0], filepath.Join(dir, filepath.Base(found[0]))))
		return dir
	}
	text, err := os.ReadFile(filepath.Join(repository, ".goreleaser.yaml"))
	require.NoError(t, err)
	var settings struct{ Archives []struct{ Files []any } }
	require.NoError(t, yaml.Unmarshal(text, &settings))
	program, err := os.Executable()
	require.NoError(t, err)
	name := "sluice_0.0.0_linux_" + runtime.GOARCH
	file, err := os.Create(filepath.Join(dir, name+".tar.gz"))
	require.NoError(t, err)
	packed, err := gzip.NewWriterLevel(file, gzip.NoCompression)
	require.NoError(t, err)
	archive := tar.NewWriter(packed)
	add := func(from, as string, mode int64) {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name + "/" + as, Mode: mode, Size: int64(len(content))}))
		_, err = archive.Write(content)
		require.NoError(t, err)
	}
	for _, one := range settings.Archives[0].Files {
		if path, ok := one.(string); ok {
			add(filepath.Join(repository, path), path, 0o644)
		}
	}
	add(program, "sluice", 0o755)
	for _, c := range []io.Closer{archive, packed, file} {
		require.NoError(t, c.Close())
	}
	return dir
}

// shell starts a shell in a network of its own, with tar and gzip and no other programs.
func shell(t *testing.T, dir string) (stdin io.Writer) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	tools := t.TempDir()
	for _, name := range []string{"tar", "gzip"} {
		file, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(file, filepath.Join(tools, name)))
	}
	cmd := &exec.Cmd{
		Path: program, Args: []string{"isolated", "/bin/sh"}, Dir: dir, Env: []string{"PATH=" + tools, "HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Setpgid: true,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("no user namespaces")
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(errs.String())
		}
	})
	return stdin
}

// The first screen of README.md leads from an archive to a verified webhook with five commands: without Go, git and a network, in
// a directory with nothing but the archive (issue 18).
func TestReadme_FirstScreenVerifiesAWebhook(t *testing.T) {
	t.Parallel()
	terminals, dir := screen(t), release(t)
	began := time.Now()
	stdin := shell(t, dir)
	for i, shows := range []string{"msg=ready", "Receiving at", "Stored event"} {
		name := filepath.Join(dir, fmt.Sprintf("terminal%d", i))
		_, err := fmt.Fprintf(stdin, "(set -e\n%s) >%s 2>&1 &\n", terminals[i], name)
		require.NoError(t, err)
		requireShown(t, name, shows)
	}
	requireShown(t, filepath.Join(dir, "terminal1"), "/orders/42 .* attempt 1  verified  → 204")
	t.Logf("from the archive to a verified webhook: %s", time.Since(began).Round(10*time.Millisecond))
}

// requireShown waits until a terminal shows a text.
func requireShown(t *testing.T, terminal, pattern string) {
	t.Helper()
	want, shown := regexp.MustCompile(pattern), ""
	for wait := time.Now().Add(patience); time.Now().Before(wait); <-time.After(50 * time.Millisecond) {
		text, _ := os.ReadFile(terminal) // the shell is about to create it
		if shown = string(text); want.MatchString(shown) {
			return
		}
	}
	require.Regexp(t, want, shown)
}
