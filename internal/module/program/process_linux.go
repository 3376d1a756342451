package program

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/internal/module"
)

// Process is a program that runs until it ends or is stopped. Its methods are safe for concurrent
// use. Only one goroutine may write to In, and only one may read from Out.
type Process struct {
	In  *os.File // standard input; before the end, only its writer closes it
	Out *os.File // standard output; it ends soon after the process
	Log *Tail    // standard error

	grace time.Duration
	errs  *os.File // standard error
	ended chan struct{}
	exit  module.Exit // once it has ended

	mu      sync.Mutex
	pid     int // 0: reaped, so the ID may be that of another process
	stopped bool
	killer  *time.Timer
}

// Start starts a program with the restrictions of Run, and returns at once. It ignores the
// program's Input and Timeout. No process that the program has started outlives it, and if this
// process is killed, so is the program. The caller must call Close once Done is closed. After an
// error nothing runs and nothing need be closed. If the program could not enter its control group,
// it is killed, and its log says why.
func (r *Runner) Start(p Program) (*Process, error) {
	within, err := r.Cgroup.group(p.Limits)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	var files []*os.File // the ends of the program, and ours
	for range 3 {
		reads, writes, err := os.Pipe()
		if err != nil {
			closeAll(files)
			within.end()
			return nil, fmt.Errorf("start %s: %w", p.Path, err)
		}
		files = append(files, reads, writes)
	}
	proc := &Process{
		In: files[1], Out: files[2], errs: files[4], Log: &Tail{Most: p.Output}, grace: p.Grace, ended: make(chan struct{}),
	}
	cmd := command(p, nil)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	over, outside, err := r.launch(cmd, p, within, proc.ended)
	closeAll([]*os.File{files[0], files[3], files[5]})
	if err != nil {
		close(proc.ended)
		closeAll([]*os.File{files[1], files[2], files[4]})
		return nil, err
	}
	proc.pid = cmd.Process.Pid
	if outside != nil {
		_, _ = fmt.Fprintln(proc.Log, outside) // a Tail never fails
		proc.Kill()
	}
	exceeded := r.watchTemp(p, proc.pid, over, proc.Kill)
	go proc.wait(cmd, remains{over, exceeded, p.Mark, within})
	return proc, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // a pipe
	}
}

// remains holds the state of a process that wait needs besides its command.
type remains struct {
	over     <-chan struct{}
	exceeded func() string // limit of the temporary directory
	mark     string
	within   *group
}

// wait reads the log of a process until the process has ended, and ends the processes that it left
// behind. The lock is held from the kill to pid = 0, so that Stop and Kill never signal an ID that
// was used again.
func (p *Process) wait(cmd *exec.Cmd, of remains) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		_, _ = io.Copy(p.Log, p.errs) // until its end, or the deadline
	}()
	<-of.over
	full := of.exceeded()
	p.mu.Lock()
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // the rest of its group
	p.pid = 0
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	of.within.end()
	adopted.ended(cmd.Process.Pid, of.mark)
	_ = cmd.Wait() // its state says how it ended
	p.exit = exitOf(cmd, false)
	p.exit.Temp = full
	until := time.Now().Add(drain) // a process that left the group may hold the pipes open
	_ = p.Out.SetReadDeadline(until)
	_ = p.errs.SetReadDeadline(until)
	<-logged
	close(p.ended)
}

// Done is closed when the process has ended, and its log is complete.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Exit returns how the process ended. It must not be called before Done is closed.
func (p *Process) Exit() module.Exit { return p.exit }

// Stop asks the process to end (SIGTERM to its group), and kills it after the grace period. It does
// not wait. Repeating it, or stopping a process that has ended, does nothing.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 || p.stopped {
		return
	}
	p.stopped = true
	_ = syscall.Kill(-p.pid, syscall.SIGTERM) // it may have ended
	p.killer = time.AfterFunc(p.grace, p.Kill)
}

// Kill ends the process at once. It does not wait.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		p.stopped = true
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it may have ended
	}
}

// Close closes the pipes of a process that has ended.
func (p *Process) Close() { closeAll([]*os.File{p.In, p.Out, p.errs}) }
