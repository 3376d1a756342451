package program

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	orphanPause = time.Millisecond // between two looks at orphans that were killed
	orphanTime  = 2 * time.Second  // how long a run waits for the end of what it left
	orphanMost  = time.Minute      // and how long that is looked at
)

// orphans ends what programs leave behind. This process adopts each process that loses its parent below a program (a
// subreaper, see prctl(2)), also one that has left its group and its session. Each of them belongs to a program that runs, or is
// ended.
type orphans struct {
	adopt sync.Once

	mu       sync.Mutex
	sessions map[int]bool    // of programs that run; each has one of its own
	marks    map[string]bool // of programs that run
	doubtful map[int]bool    // stopped without a mark at the last look: it may have been between two programs (execve)
}

// of this process, whose children these are.
var adopted = orphans{sessions: map[int]bool{}, marks: map[string]bool{}, doubtful: map[int]bool{}} //nolint:gochecknoglobals // as its children are

// expect notes a program that is about to start, by its mark.
func (o *orphans) expect(mark string) {
	o.adopt.Do(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
		// Descriptors that this process got from its own parent go to no program; since Linux 5.11.
		_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.marks[mark] = true
}

// began notes the session of a program that has started.
func (o *orphans) began(pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[pid] = true
}

// ended ends what a program has left behind, once it has ended itself.
func (o *orphans) ended(pid int, mark string) {
	o.mu.Lock()
	delete(o.sessions, pid)
	delete(o.marks, mark)
	o.mu.Unlock()
	if o.end() == 0 {
		return
	}
	none := make(chan struct{})
	go func() {
		defer close(none)
		for began := time.Now(); o.end() > 0 && time.Since(began) < orphanMost; {
			<-time.After(orphanPause)
		}
	}()
	select {
	case <-none:
	case <-time.After(orphanTime):
	}
}

// end kills the orphans that belong to no program that runs, reaps those that have ended, and returns how many of both there
// were. No process is reaped elsewhere, so that a number is not another process's before it is looked at again.
func (o *orphans) end() (left int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	doubtful := o.doubtful
	o.doubtful = map[int]bool{}
	for _, pid := range children() {
		session, err := unix.Getsid(pid)
		if err != nil || session == ownSession() {
			continue // of no program
		}
		var end unix.Siginfo // not Wait4, which would take a process that is stopped for one that has ended if it has this one trace it
		if err := unix.Waitid(unix.P_PID, pid, &end, unix.WEXITED|unix.WNOHANG, nil); err != nil {
			continue
		}
		if end.Signo != 0 {
			left++ // it may have had children
			continue
		}
		switch mark, runs := o.markOf(pid); {
		case runs || o.sessions[session]:
			if doubtful[pid] {
				_ = unix.Kill(pid, unix.SIGCONT) // it may have ended
			}
			continue
		case mark || doubtful[pid]:
			endTree(pid)
		default:
			_ = unix.Kill(pid, unix.SIGSTOP) // or it could have a child at each look, and end
			o.doubtful[pid] = true
		}
		left++
	}
	return left
}

// markOf reports whether a process has the mark of a program, and whether that program runs. The caller holds the lock.
func (o *orphans) markOf(pid int) (marked, runs bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, false
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(MarkName+"=")) {
			return true, o.marks[string(entry)]
		}
	}
	return false, false
}

func ownSession() int {
	session, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return session
}

// endTree kills a process, which this one has adopted, and all that it has started. They are stopped before the first of them is killed:
// it would make room for another one under a limit of processes.
func endTree(root int) {
	type process struct{ pid, parent int }
	tree := []process{{pid: root}}
	_ = unix.Kill(root, unix.SIGSTOP) // it may have ended
	for i := 0; i < len(tree); i++ {  // it grows
		for _, child := range childrenOf(tree[i].pid) {
			if signalChild(child, tree[i].pid, unix.SIGSTOP) {
				tree = append(tree, process{child, tree[i].pid})
			}
		}
	}
	for _, p := range slices.Backward(tree[1:]) {
		signalChild(p.pid, p.parent, unix.SIGKILL)
	}
	_ = unix.Kill(root, unix.SIGKILL) // it may have ended
}

// signalChild sends a signal to a process, unless its number is not that of a child of the parent any more.
func signalChild(pid, parent int, signal unix.Signal) bool {
	fd, err := unix.PidfdOpen(pid, 0) // since Linux 5.3; without it the processes end one generation after the other
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // it was not written
	return parentOf(pid) == parent && unix.PidfdSendSignal(fd, signal, nil, 0) == nil
}

// parentOf returns the parent of a process; 0: there is none.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before it may have spaces
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// childrenOf returns the processes that a process has started and that have not ended.
func childrenOf(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is fine
	for _, file := range files {
		pids = append(pids, listed(file)...)
	}
	return pids
}

// children returns the processes that this one has adopted: they are the children of its main thread, which starts none.
func children() []int { return listed(childrenFile()) }

// listed returns the processes in a file; none if a kernel does not have it, or its process has ended.
func listed(file string) (pids []int) {
	text, err := os.ReadFile(file) //nolint:gosec // of /proc
	if err != nil {
		return nil
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func childrenFile() string { return fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()) }
