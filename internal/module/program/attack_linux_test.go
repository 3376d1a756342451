package program_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module/program"
)

const python = "/usr/bin/python3" // the system's, which programs may read

// attacks tries to get out of a program's restrictions, and prints the way of each attempt that succeeded.
const attacks = `
import ctypes, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
secret, listener, network = sys.argv[1], sys.argv[2], sys.argv[3] == "network"
server = os.getppid()

def syscall(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "syscall")

def forked(flags):
    pid = libc.syscall(ctypes.c_long(56), ctypes.c_long(flags | 17), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")

ways = {
    "read a file": lambda: open(secret).read(),
    "list a directory": lambda: os.listdir(os.path.dirname(secret)),
    "write a file": lambda: open(secret, "w"),
    "empty a file": lambda: os.truncate(secret, 0),
    "make a file": lambda: open(secret + "2", "w"),
    "remove a file": lambda: os.remove(secret),
    "link a file": lambda: os.link(secret, os.environ["TMPDIR"] + "/link"),
    "read it through a link": lambda: (os.symlink(secret, os.environ["TMPDIR"] + "/sym"), open(os.environ["TMPDIR"] + "/sym").read()),
    "server's environment": lambda: open("/proc/%d/environ" % server).read(),
    "server's descriptors": lambda: os.listdir("/proc/%d/fd" % server),
    "ptrace the server": lambda: syscall(101, 16, server, 0, 0),
    "memory of the server": lambda: syscall(310, server, 0, 0, 0, 0, 0),
    "io_uring": lambda: syscall(425, 1, 0),
    "user namespace": lambda: syscall(272, 0x10000000),
    "user namespace by clone": lambda: forked(0x10000000),
    "mount": lambda: syscall(165, 0, 0, 0, 0, 0),
    "kernel keys": lambda: syscall(250, 0, -3, 1),
    "bpf": lambda: syscall(321, 0, 0, 0),
    "own executable": lambda: open(sys.argv[4], "a"),
    "limits of the server": lambda: syscall(302, server, 7, 0, 0),
    "priority of the server": lambda: syscall(141, 0, server, 0),
    "I/O priority of the server": lambda: syscall(251, 1, server, 0),
    "I/O priority of the user": lambda: syscall(251, 3, 0, 0),
    "processors of the server": lambda: syscall(203, server, 0, 0),
    "scheduler of the server": lambda: syscall(144, server, -1, 0),
    "scheduler's parameters of the server": lambda: syscall(142, server, 0),
    "scheduler's attributes of the server": lambda: syscall(314, server, 0, 0),
    "memory nodes of the server": lambda: syscall(256, server, 0, 0, 0),
    "pages of the server": lambda: syscall(279, server, 0, 0, 0, 0, 0),
    "advice on memory of the server": lambda: syscall(440, -1, 0, 0, 0, 0),
    "memory of a dying server": lambda: syscall(448, -1, 0),
    "device": lambda: os.mknod(os.environ["TMPDIR"] + "/mem", 0o20600, os.makedev(1, 1)),
}
if not network:
    ways.update({
        "TCP": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "IPv6": lambda: socket.socket(socket.AF_INET6),
        "raw": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "local socket": lambda: socket.socket(socket.AF_UNIX).connect(listener),
        "vsock": lambda: socket.socket(socket.AF_VSOCK),
    })
if "signals" in sys.argv[5:]:
    ways["signal the server"] = lambda: os.kill(server, 0)
    ways["abstract socket"] = lambda: socket.socket(socket.AF_UNIX).connect("\0" + listener)
for way, attempt in ways.items():
    try:
        attempt()
        print("open:", way)
    except OSError as e:
        if e.errno not in (1, 3, 13, 18):
            print("open:", way, e)
for fd in range(3, 1024):
    try:
        os.fstat(fd)
        print("inherited:", fd)
    except OSError:
        pass
if libc.prctl(39, 0, 0, 0, 0) != 1:
    print("open: set-user-ID")
socket.socketpair()
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(1)
print("tried", len(ways))
`

// No way out of the restrictions is open to a program of the server's own user, with the network or without.
func TestRun_RefusesWaysOut(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(python); err != nil || !has("files (Landlock)") || !has("system calls (seccomp)") || runtime.GOARCH != "amd64" {
		t.Skip("needs python3 on amd64, and a kernel with Landlock and seccomp")
	}
	secret := filepath.Join(t.TempDir(), "secrets.key")
	require.NoError(t, os.WriteFile(secret, []byte("hidden"), 0o600))
	local := filepath.Join(t.TempDir(), "s")
	for _, name := range []string{local, "@" + local} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
	}
	for _, network := range []string{"none", "network"} {
		p := shell(t, `exec `+python+` -c "$@"`)
		p.Args, p.Network = []string{attacks, secret, local, network, p.Path}, network == "network"
		p.Env = append(p.Env, "TMPDIR="+p.Temp)
		if has("signals (Landlock)") {
			p.Args = append(p.Args, "signals")
		}
		res := run(t, p)
		require.Regexp(t, `^tried \d+\n$`, res.Output, network)
	}
	kept, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "hidden", string(kept))
}

// bombs are programs that start processes without end. The last ones clear their environment, and one of these ends in each process as soon
// as it has started the next one.
func bombs(t *testing.T) map[string]program.Program {
	t.Helper()
	all := map[string]program.Program{}
	for language, b := range languages(t) {
		all[language] = b.does(t, "bomb")
	}
	if _, err := os.Stat(python); err == nil {
		const bomb = "exec env -i " + python + ` -c '
import os
while True:
    try:
        if os.fork() == 0: os.setsid()
        elif %s: os._exit(0)
    except OSError: pass
'`
		all["hidden"], all["rolling"] = shell(t, strings.Replace(bomb, "%s", "False", 1)), shell(t, strings.Replace(bomb, "%s", "True", 1))
	}
	return all
}

// A program of another user than the server's cannot have more processes than its limit, not even at its start, and all of them end with it.
// One bomb at a time, and a small one: other tests need the processors.
func TestRun_EndsForkBombs(t *testing.T) { //nolint:tparallel // one bomb at a time
	t.Parallel()
	if os.Geteuid() != 0 || !has("limits from the start (ptrace)") {
		t.Skip("needs root, and that programs may be traced")
	}
	const most = 24
	uid := uint32(64_200)
	for name, p := range bombs(t) { //nolint:paralleltest // one bomb at a time
		uid++
		as := program.User{UID: uid, GID: uid}
		t.Run(name, func(t *testing.T) {
			for _, dir := range []string{p.Dir, filepath.Dir(p.Dir), p.Temp, filepath.Dir(p.Temp)} {
				require.NoError(t, os.Chmod(dir, 0o777))
			}
			p.Limits.Processes, p.Timeout, p.Grace = most, 200*time.Millisecond, 50*time.Millisecond
			p.Mark = program.MarkName + "=" + p.Temp
			p.Env = append(p.Env, p.Mark)
			ended := make(chan error, 1)
			go func() {
				_, err := (&program.Runner{As: &as}).Run(t.Context(), p)
				ended <- err
			}()
			for seen, runs := 0, true; runs; {
				select {
				case err := <-ended:
					require.NoError(t, err)
					t.Log(seen, "processes at most")
					runs = false
				case <-time.After(10 * time.Millisecond):
					seen = max(seen, len(ofUser(t, as.UID)))
					require.LessOrEqual(t, seen, most)
				}
			}
			require.Eventually(t, func() bool { return len(ofUser(t, as.UID)) == 0 }, time.Minute, time.Millisecond) // a slow machine needs more than 2 s
		})
	}
}

// ofUser returns the processes of a user that have not ended.
func ofUser(t *testing.T, uid uint32) (pids []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == uid {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

// A program that closes its output and lives on is ended in time.
func TestRun_ClosedOutputIsNoEnd(t *testing.T) {
	t.Parallel()
	p := shell(t, `exec >&- 2>&-; sleep 1000`)
	p.Timeout = 200 * time.Millisecond
	require.True(t, run(t, p).Exit.TimedOut)
}
