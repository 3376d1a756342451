package program_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
)

// shell returns a run of a script in a directory of its own.
func shell(t *testing.T, script string, args ...string) program.Program {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "handler")
	writeProgram(t, file, "#!/bin/sh\n"+script+"\n")
	return program.Program{
		Path: file, Args: args, Dir: dir, Temp: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
		Timeout: time.Minute, Grace: time.Minute, Output: 64 << 10,
	}
}

// writeProgram writes a file that can be run.
func writeProgram(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
}

func run(t *testing.T, p program.Program) program.Result {
	t.Helper()
	res, err := (&program.Runner{}).Run(t.Context(), p)
	require.NoError(t, err)
	return res
}

func TestRun_GivesInputArgumentsAndEnvironment(t *testing.T) {
	t.Parallel()
	p := shell(t, `cat; echo "$#|$1|$2|$WORD|$HOME|$(pwd)"`, "a b", "$(date)")
	p.Input, p.Env = []byte("an event\n"), append(p.Env, "WORD=;rm -rf")
	require.Equal(t, program.Result{Output: "an event\n2|a b|$(date)|;rm -rf||" + p.Dir + "\n"}, run(t, p))
}

func TestRun_TellsHowItEnded(t *testing.T) {
	t.Parallel()
	_, err := (&program.Runner{}).Run(t.Context(), program.Program{Path: filepath.Join(t.TempDir(), "none"), Dir: t.TempDir(), Timeout: time.Minute})
	require.ErrorIs(t, err, os.ErrNotExist)
	res := run(t, shell(t, "exit 0")) // does not read its input
	require.Equal(t, program.Result{}, res)
}

func TestRun_LeavesLargeInputUnread(t *testing.T) {
	t.Parallel()
	p := shell(t, "exit 3")
	p.Input = make([]byte, 8<<20)
	require.Equal(t, 3, run(t, p).Exit.Code)
}

// A program that has just been written may still be open for a moment in a process that is between
// fork and exec.
func TestRun_WaitsUntilTheProgramIsClosed(t *testing.T) {
	t.Parallel()
	p := shell(t, "exit 3")
	f, err := os.OpenFile(p.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, func() { _ = f.Close() })
	require.Equal(t, 3, run(t, p).Exit.Code)
}

func TestRun_AsksToEnd(t *testing.T) {
	t.Parallel()
	p := shell(t, `trap 'echo asked; exit 9' TERM; echo on; while :; do sleep 0.01; done`)
	p.Timeout = 3 * time.Second // it sets its trap within it
	res := run(t, p)
	require.Equal(t, module.Exit{Code: 9, TimedOut: true}, res.Exit)
}

func TestRun_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := shell(t, `echo on > "$1/on"; while :; do sleep 0.01; done`)
	p.Args = []string{p.Temp}
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(p.Temp, "on")); err == nil {
				cancel()
			}
		}
	}()
	res, err := (&program.Runner{}).Run(ctx, p)
	require.NoError(t, err)
	require.Equal(t, module.Exit{Code: -1, Signal: syscall.SIGTERM}, res.Exit)
}

// A program that leaves processes behind, which hold its output open and ignore signals, ends with all of them.
func TestRun_EndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	p := shell(t, `(trap '' TERM HUP; sleep 1000 & echo $! > "$1/pid"; wait) & while [ ! -s "$1/pid" ]; do :; done; exit 0`)
	p.Args = []string{p.Temp}
	require.Equal(t, 0, run(t, p).Exit.Code)
	require.ErrorIs(t, syscall.Kill(numberIn(t, p.Temp, "pid"), 0), syscall.ESRCH)
}

// numberIn waits for a file with the number of a process, and returns it.
func numberIn(t *testing.T, dir, name string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, time.Minute, time.Millisecond, name)
	return pid
}

// A process that has left the group and the session of its program, its output, and even its environment, ends with the
// program all the same. That of a program that still runs is left alone. The end of another program would end the bare process,
// which nothing ties to its own, before it has written its number: so no other test runs meanwhile.
func TestRun_EndsProcessesOutsideItsGroup(t *testing.T) { //nolint:paralleltest // as said
	const leave = `(setsid sh -c 'echo $$ > "$0/marked"; exec sleep 1000' "$1" >/dev/null 2>&1 &)
(setsid env -i /bin/sh -c 'echo $$ > "$0/bare"; exec /bin/sleep 1000' "$1" >/dev/null 2>&1 &)
while [ ! -s "$1/marked" ] || [ ! -s "$1/bare" ]; do :; done; `
	other := shell(t, leave+`while [ ! -e "$1/end" ]; do sleep 0.01; done`)
	other.Args, other.Mark = []string{other.Temp}, "SLUICE_RUN="+other.Temp
	other.Env = append(other.Env, other.Mark)
	var running sync.WaitGroup
	running.Go(func() { run(t, other) })
	stays := numberIn(t, other.Temp, "marked")

	p := shell(t, leave+`exit 0`)
	p.Args, p.Mark = []string{p.Temp}, "SLUICE_RUN="+p.Temp
	p.Env = append(p.Env, p.Mark)
	require.Equal(t, 0, run(t, p).Exit.Code)
	for _, name := range []string{"marked", "bare"} {
		require.ErrorIs(t, syscall.Kill(numberIn(t, p.Temp, name), 0), syscall.ESRCH, name)
	}
	require.NoError(t, syscall.Kill(stays, 0))
	require.NoError(t, os.WriteFile(filepath.Join(other.Temp, "end"), nil, 0o600))
	running.Wait()
	require.ErrorIs(t, syscall.Kill(stays, 0), syscall.ESRCH)
}

// isZombie reports whether a process has ended, but was not reaped by its new parent yet.
func isZombie(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

func TestRun_LimitsResources(t *testing.T) {
	t.Parallel()
	p := shell(t, `head -c 100000 /dev/zero > "$1/file"; wc -c < "$1/file"; ulimit -c; ulimit -n`)
	p.Args, p.Limits = []string{p.Temp}, program.Limits{FileSize: 1000, Files: 32}
	require.Equal(t, "1000\n0\n32\n", strings.ReplaceAll(run(t, p).Output, "File size limit exceeded\n", ""))
	p = shell(t, `while :; do :; done`)
	p.Limits.Processor = 500 * time.Millisecond // the kernel counts whole seconds
	require.Equal(t, syscall.SIGKILL, run(t, p).Exit.Signal)
}

func TestRun_ReachesNoFilesOfOthers(t *testing.T) {
	t.Parallel()
	if !has("files (Landlock)") {
		t.Skip("this kernel has no Landlock")
	}
	secret := filepath.Join(t.TempDir(), "secrets.key")
	require.NoError(t, os.WriteFile(secret, []byte("hidden"), 0o600))
	p := shell(t, `cat "$1"; echo x > "$1"; echo x > "$2"; rm -f "$0"; ls /root; cat /proc/$PPID/environ > "$3/environ"; cat "$3/environ"; echo mine > "$3/own" && cat "$3/own"`)
	p.Args = []string{secret, filepath.Join(p.Dir, "new"), p.Temp}
	res := run(t, p)
	require.NotContains(t, res.Output, "hidden")
	require.Contains(t, res.Output, "mine\n")
	require.NoFileExists(t, filepath.Join(p.Dir, "new"))
	require.FileExists(t, p.Path)
	kept, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "hidden", string(kept))
	require.Equal(t, 6, strings.Count(res.Output, "denied"), res.Output)
}

func TestRun_ReachesNoNetwork(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(python); err != nil || !has("network (seccomp)") {
		t.Skip("needs python3, and a kernel with seccomp")
	}
	const try = `import socket,sys
try: socket.socket(socket.AF_INET); print("open")
except PermissionError: print("refused")
socket.socketpair(); print("pair")`
	p := shell(t, "exec "+python+` -c "$1"`, try)
	require.Equal(t, "refused\npair\n", run(t, p).Output)
	p.Network = true
	require.Equal(t, "open\npair\n", run(t, p).Output)
}

func has(restriction string) bool {
	return slices.Contains(program.InForce(), restriction)
}

// The restrictions of a program are of its thread alone: this process keeps its rights.
func TestRun_RestrictsNothingElse(t *testing.T) {
	t.Parallel()
	for range 20 {
		run(t, shell(t, "exit 0"))
	}
	_, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Close(fd))
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	require.Contains(t, string(text), "NoNewPrivs:\t0")
}

// parent makes this test binary a server that is killed while a program runs, and above the parent of such a server.
const (
	parent = "SLUICE_TEST_PROGRAM"
	above  = "SLUICE_TEST_PROGRAM_ABOVE"
	stays  = "SLUICE_TEST_PROGRAM_STAYS" // with parent: it is started, and not run
)

func TestMain(m *testing.M) {
	if file := os.Getenv(above); file != "" {
		adopt(file)
		return
	}
	if file := os.Getenv(parent); file != "" {
		serve(program.Program{
			Path: file, Args: []string{filepath.Dir(file)}, Dir: filepath.Dir(file), Temp: filepath.Dir(file), Env: []string{"PATH=/usr/bin:/bin", "SLUICE_RUN=" + file}, Timeout: time.Hour, Grace: time.Hour,
		})
		return
	}
	os.Exit(m.Run())
}

// serve runs a program until it ends.
func serve(p program.Program) {
	if os.Getenv(stays) == "" {
		if _, err := (&program.Runner{}).Run(context.Background(), p); err != nil {
			panic(err)
		}
		return
	}
	proc, err := (&program.Runner{}).Start(p)
	if err != nil {
		panic(err)
	}
	<-proc.Done()
}

// adopt starts a server, and adopts what is left of it, as the first process of a machine does. It ends with its input.
func adopt(file string) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	server := exec.CommandContext(context.Background(), os.Args[0])
	server.Env = append(os.Environ(), above+"=", parent+"="+file)
	if err := server.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "server"), []byte(strconv.Itoa(server.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
	_ = server.Wait() // it is killed
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// A program dies with its server, and what it has started is ended at the server's next start.
func TestSweep_EndsTheRestOfAKilledServer(t *testing.T) {
	t.Parallel()
	p := shell(t, `(sleep 1000 & echo $! > "$1/grandchild"; wait) & echo $$ > "$1/child"; wait`)
	adopting := exec.CommandContext(t.Context(), os.Args[0])
	adopting.Env = append(os.Environ(), above+"="+p.Path)
	end, err := adopting.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, adopting.Start())
	pids := map[string]int{}
	for _, name := range []string{"server", "child", "grandchild"} {
		pids[name] = numberIn(t, p.Dir, name)
	}
	gone := func(name string) func() bool {
		return func() bool { return syscall.Kill(pids[name], 0) != nil || isZombie(t, pids[name]) }
	}
	require.NoError(t, syscall.Kill(pids["server"], syscall.SIGKILL))
	require.Eventually(t, gone("child"), time.Minute, time.Millisecond)
	require.False(t, gone("grandchild")())
	require.NoError(t, program.Sweep("SLUICE_RUN="+p.Path))
	require.Eventually(t, gone("grandchild"), time.Minute, time.Millisecond)
	require.NoError(t, end.Close())
	require.NoError(t, adopting.Wait())
}

func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	p := program.Program{Path: "/bin/true", Dir: dir, Temp: dir, Timeout: time.Minute, Grace: time.Second, Output: 1000}
	r := &program.Runner{}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Run(b.Context(), p); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
