//go:build linux

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestGroupIn_FindsTheGroupOfVersion2(t *testing.T) {
	t.Parallel()
	const mounts = `24 1 0:22 / /proc rw - proc proc rw
30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
`
	tests := map[string]struct{ groups, mounts, want string }{
		"unified":            {"0::/system.slice/sluice.service\n", mounts, "/sys/fs/cgroup/system.slice/sluice.service"},
		"hybrid":             {"8:pids:/a\n0::/b\n", mounts, "/sys/fs/cgroup/b"},
		"version 1 alone":    {"8:pids:/a\n", mounts, ""},
		"not mounted":        {"0::/b\n", "24 1 0:22 / /proc rw - proc proc rw\n", ""},
		"a part is mounted":  {"0::/a/b\n", "31 24 0:27 /a /c rw - cgroup2 cgroup2 rw\n", "/c/b"},
		"elsewhere":          {"0::/b\n", "31 24 0:27 /a /c rw - cgroup2 cgroup2 rw\n", ""},
		"outside of its own": {"0::/../b\n", mounts, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, groupIn([]byte(test.groups), []byte(test.mounts)))
		})
	}
}

// within returns a control group as a server has one, without moving this process.
func within(tb testing.TB) *Cgroup {
	tb.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(tb, err)
	root := groupIn([]byte("0::/\n"), mounts)
	if root == "" {
		tb.Skip("there are no control groups of version 2 here")
	}
	dir, err := os.MkdirTemp(root, "sluice-test-") //nolint:usetesting // a control group, not a directory of files
	if err != nil {
		tb.Skip("no control group may be made here: ", err)
	}
	tb.Cleanup(func() { require.NoError(tb, os.Remove(dir)) })
	c := &Cgroup{dir: dir}
	_ = control(root, "cgroup.subtree_control", "+pids")
	c.pids = control(dir, "cgroup.subtree_control", "+pids") == nil
	return c
}

// groupOf returns the control group of a process.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	require.NoError(t, err)
	return string(text)
}

// Issue 17: what a program starts is in its control group, and ends with it.
func TestCgroup_ProgramsHaveOneEach(t *testing.T) {
	t.Parallel()
	c := within(t)
	temp := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := Runner{Cgroup: c}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, Program{
			Path: "/bin/sh", Args: []string{"-c", `sleep 1000 & echo $! > "$TMPDIR/pid.part"; mv "$TMPDIR/pid.part" "$TMPDIR/pid"; wait`}, Dir: temp, Temp: temp,
			Env: []string{"TMPDIR=" + temp, "PATH=/usr/bin:/bin"}, Mark: MarkName + "=cgroup", Timeout: time.Minute, Grace: time.Millisecond,
		})
		done <- err
	}()
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(temp, "pid"))
		if err == nil {
			_, err = fmt.Sscan(string(text), &pid)
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(groupOf(t, pid), filepath.Base(c.dir)+"/"+runGroups)
	}, time.Minute, time.Millisecond, "also if it was started before its parent was moved")
	cancel()
	require.NoError(t, <-done)
	require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
	left, err := filepath.Glob(filepath.Join(c.dir, runGroups+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A process that nothing else would find ends with its group.
func TestCgroup_EndKillsAll(t *testing.T) {
	t.Parallel()
	c := within(t)
	g, err := c.group(Limits{})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "1000")
	require.NoError(t, cmd.Start())
	require.NoError(t, g.enter(cmd.Process.Pid))
	require.NoError(t, g.enter(1<<22+1), "a process that has ended")
	g.end()
	require.ErrorContains(t, cmd.Wait(), "killed")
	require.NoDirExists(t, g.dir)

	g, err = c.group(Limits{})
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), "/bin/sleep", "1000")
	require.NoError(t, cmd.Start())
	require.NoError(t, g.enter(cmd.Process.Pid))
	require.NoError(t, c.removeLeft(), "as after a kill of the server")
	require.ErrorContains(t, cmd.Wait(), "killed")
	require.NoDirExists(t, g.dir)
}

// Issue 17: the processes of a program are bounded without a user of its own.
func TestCgroup_BoundsProcesses(t *testing.T) {
	t.Parallel()
	c := within(t)
	if !c.pids {
		t.Skip("control groups of version 2 do not have the controller pids here")
	}
	require.True(t, slices.Contains(c.InForce(), "processes (cgroup)"))
	temp := t.TempDir()
	r := Runner{Cgroup: c}
	res, err := r.Run(t.Context(), Program{
		Path: "/bin/sh", Args: []string{"-c", "sleep 0.2; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; exit 0"}, Dir: temp, Temp: temp,
		Env: []string{"PATH=/usr/bin:/bin"}, Mark: MarkName + "=pids", Timeout: time.Minute, Grace: time.Millisecond, Output: 1 << 10, Limits: Limits{Processes: 5},
	})
	require.NoError(t, err)
	require.NotZero(t, res.Exit.Code, res.Output)
	require.Contains(t, strings.ToLower(res.Output), "fork")
}

// BenchmarkCgroup_Run measures one run of /bin/true with a control group, and without.
func BenchmarkCgroup_Run(b *testing.B) {
	c := within(b)
	for name, group := range map[string]*Cgroup{"with": c, "without": nil} {
		b.Run(name, func(b *testing.B) {
			r, dir := Runner{Cgroup: group}, b.TempDir()
			for b.Loop() {
				_, err := r.Run(b.Context(), Program{Path: "/bin/true", Dir: dir, Temp: dir, Mark: MarkName + "=bench", Timeout: time.Minute, Grace: time.Second, Output: 1000})
				require.NoError(b, err)
			}
		})
	}
}
