package program

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// traces reports whether this process may trace the processes that it starts. A traced process
// stops before its first instruction, so it never runs without its limits.
var traces = sync.OnceValue(mayTrace) //nolint:gochecknoglobals // of this process

func mayTrace() bool {
	const adminsAlone = "2" // of Yama; programs may run as another user
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(scope)) >= adminsAlone {
		return false
	}
	may := make(chan bool, 1)
	go onOwnThread(func() {
		cmd := &exec.Cmd{Path: "/proc/self/exe", SysProcAttr: &syscall.SysProcAttr{Ptrace: true}}
		err := cmd.Start()
		if err == nil { // it has not run yet
			_ = cmd.Process.Kill() // it cannot have ended
			_ = cmd.Wait()         // it was killed
		}
		may <- err == nil
	})
	return <-may
}

// letGo lets a traced process run. Call it on the thread that started the process.
func letGo(cmd *exec.Cmd) {
	if !cmd.SysProcAttr.Ptrace {
		return
	}
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.PtraceDetach(cmd.Process.Pid) // it may have been killed
}
