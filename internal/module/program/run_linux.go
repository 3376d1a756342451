package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-io/sluice/internal/module"
)

// User is the user that programs run as, if the server is root.
type User struct {
	Name     string
	UID, GID uint32
}

// Runner runs programs. The zero value runs them as the server's user. It is safe for concurrent
// use.
type Runner struct {
	As     *User   // nil: the server's user
	Cgroup *Cgroup // nil: programs have no control groups

	looks sync.Mutex // one check of a temporary directory at a time
}

// drain limits how long the output of a program is read after its end, because a process that left
// its group may hold the pipe open.
const drain = time.Second

// Run runs a program to its end, and returns how it ended. When the context is done or the timeout
// is over, Run asks the program to end (SIGTERM to its group), and kills it after the grace period.
// No process that the program has started outlives it, and if this process is killed, so is the
// program. The error says why the program could not be started. If the program could not enter its
// control group, Run kills it, and returns an error beside the Result.
func (r *Runner) Run(ctx context.Context, p Program) (Result, error) {
	reaped := make(chan struct{})
	defer close(reaped)
	out, printed := &output{most: p.Output}, &output{most: p.Apart}
	cmd := command(p, out)
	if p.Apart > 0 {
		cmd.Stdout = printed
	}
	within, err := r.Cgroup.group(p.Limits)
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", p.Path, err)
	}
	over, outside, err := r.launch(cmd, p, within, reaped)
	if err != nil {
		return Result{}, err
	}
	if outside != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended
	exceeded := r.watchTemp(p, cmd.Process.Pid, over, kill)
	timedOut := await(ctx, over, cmd.Process.Pid, p)
	full := exceeded()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the rest of its group
	within.end()
	adopted.ended(cmd.Process.Pid, p.Mark)
	err = cmd.Wait()
	res := Result{Exit: exitOf(cmd, timedOut)}
	res.Exit.Temp = full
	res.Output, res.Truncated = out.text()
	if p.Apart > 0 {
		text, more := printed.text()
		res.Printed, res.Overflow = []byte(text), more
	}
	return res, errors.Join(outside, ignoreExit(err))
}

// launch starts a process. Over is closed when the process has ended; the caller then reaps it, and
// closes reaped. The error outside means that the process could not be moved into its control
// group. The thread that starts a process passes its restrictions on to it, and must live as long
// as the process: the kernel kills the process at the end of that thread (PDEATHSIG).
func (r *Runner) launch(cmd *exec.Cmd, p Program, within *group, reaped <-chan struct{}) (over <-chan struct{}, outside, err error) {
	started, entered, ended := make(chan error, 1), make(chan struct{}), make(chan struct{})
	adopted.expect(p.Mark)
	go onOwnThread(func() {
		err := r.start(cmd, p)
		started <- err
		if err == nil {
			<-entered
			letGo(cmd)
			awaitEnd(cmd.Process.Pid)
			close(ended)
		}
		<-reaped
	})
	if err := <-started; err != nil {
		within.end()
		adopted.ended(0, p.Mark)
		return nil, nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	outside = within.enter(cmd.Process.Pid)
	close(entered)
	return ended, outside, nil
}

// start starts a process from the calling thread, which keeps the restrictions and the user of the
// process. A traced process waits for letGo.
func (r *Runner) start(cmd *exec.Cmd, p Program) error {
	if err := restrict(p, r.As); err != nil {
		return err
	}
	cmd.SysProcAttr.Ptrace = traces()
	if err := startWhenClosed(cmd); err != nil {
		return err
	}
	adopted.began(cmd.Process.Pid)
	limits := p.Limits
	if r.As == nil {
		limits.Processes = 0 // the limit would count the server's own processes
	}
	err := r.limit(cmd.Process.Pid, limits)
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it is not reaped, so the ID is still its own
		err = errors.Join(err, ignoreExit(cmd.Wait()))
	}
	return err
}

// limit sets the limits of a process that has just been started, from a thread of the same user,
// because no other may. The thread that started the process may not: its filter denies it.
func (r *Runner) limit(pid int, l Limits) error {
	limited := make(chan error, 1)
	go onOwnThread(func() {
		var err error
		if r.As != nil {
			err = become(*r.As)
		}
		if err == nil {
			err = limit(pid, l)
		}
		limited <- err
	})
	return <-limited
}

// startWhenClosed starts a process. A program that has just been written can still be open in a
// process that is between fork and exec, and then cannot start (ETXTBSY). It is tried again for
// about a second.
func startWhenClosed(cmd *exec.Cmd) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || wait > time.Second/2 {
			return err //nolint:wrapcheck // the caller names the program
		}
		<-time.After(wait)
		*cmd = exec.Cmd{ // a Cmd starts once
			Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
			WaitDelay: cmd.WaitDelay, SysProcAttr: cmd.SysProcAttr,
		}
	}
}

// onOwnThread calls f on a thread that ends when f returns. It never uses the main thread, which
// cannot end.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // the thread is still locked, and ends
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		f()
	}()
	<-over
	runtime.UnlockOSThread()
}

func command(p Program, out *output) *exec.Cmd {
	return &exec.Cmd{
		Path: p.Path, Args: append([]string{p.Path}, p.Args...), Dir: p.Dir, Env: p.Env,
		Stdin: bytes.NewReader(p.Input), Stdout: out, Stderr: out, WaitDelay: drain,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
}

// ignoreExit returns nil for errors that a program may cause: an exit code, input that it did not
// read, and output that was still open at its end.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func exitOf(cmd *exec.Cmd, timedOut bool) module.Exit {
	exit := module.Exit{Code: cmd.ProcessState.ExitCode(), TimedOut: timedOut}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}

// awaitEnd returns when a process has ended. It does not reap the process, so that its ID stays the
// ID of its group.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// await returns when a process has ended. At the timeout, or when ctx is done, it asks the process
// to end, and kills it after the grace period.
func await(ctx context.Context, over <-chan struct{}, pid int, p Program) (timedOut bool) {
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	select {
	case <-over:
		return false
	case <-limited.Done():
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM) // it may have ended
	grace := time.NewTimer(p.Grace)
	defer grace.Stop()
	select {
	case <-over:
	case <-grace.C:
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
		<-over
	}
	return ctx.Err() == nil
}

// limit sets the limits of a process. RLIMIT_CPU counts whole seconds, so a processor time is
// rounded up to them.
func limit(pid int, l Limits) error {
	seconds := uint64(math.Ceil(max(0, l.Processor.Seconds())))
	all := map[int]uint64{
		unix.RLIMIT_AS: l.Memory, unix.RLIMIT_CPU: seconds, unix.RLIMIT_NOFILE: l.Files, unix.RLIMIT_FSIZE: l.FileSize,
		unix.RLIMIT_NPROC: l.Processes,
	}
	for which, most := range all {
		if most == 0 {
			continue
		}
		err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: most, Max: most}, nil)
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
			return fmt.Errorf("limit a program: %w", err)
		}
	}
	err := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) // no core dump: its memory may hold secrets
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limit a program: %w", err)
	}
	return nil
}
