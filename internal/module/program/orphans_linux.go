package program

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
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
)

// orphans ends what programs leave behind. This process adopts each process that loses its parent below a program (a
// subreaper, see prctl(2)), also one that has left its group and its session. Each of them belongs to a program that runs, or is
// ended.
type orphans struct {
	adopt sync.Once

	mu       sync.Mutex
	sessions map[int]bool    // of programs that run; each has one of its own
	marks    map[string]bool // of programs that run
	doubtful map[int]bool    // without a mark at the last look: it may have been between two programs (execve)
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
	for began := time.Now(); o.end() > 0 && time.Since(began) < orphanTime; {
		<-time.After(orphanPause)
	}
}

// end kills the orphans that belong to no program that runs, reaps those that have ended, and returns how many are left. No
// process is reaped elsewhere, so that a number is not another process's before it is looked at again.
func (o *orphans) end() (left int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	doubtful := o.doubtful
	o.doubtful = map[int]bool{}
	for _, pid := range children() {
		session, err := unix.Getsid(pid)
		if err != nil || session == ownSession() || o.sessions[session] {
			continue // of no program, or of one that runs
		}
		if reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil || reaped == pid {
			continue
		}
		switch mark, runs := o.markOf(pid); {
		case runs:
			continue
		case mark || doubtful[pid]:
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		default:
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
