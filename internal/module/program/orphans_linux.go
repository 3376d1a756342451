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
	orphanPause = time.Millisecond // between two checks of orphans that were killed
	orphanTime  = 2 * time.Second  // how long a run waits for the end of its orphans
	orphanMost  = time.Minute      // how long the checks continue in the background
)

// orphans ends the processes that programs leave behind. This process is a subreaper (see
// prctl(2)): it adopts each descendant of a program that loses its parent, even one that has left
// its process group and session. An adopted process that belongs to no running program is ended. mu
// guards the maps. There is one for the whole process.
type orphans struct {
	adopt sync.Once

	mu       sync.Mutex
	sessions map[int]bool    // of running programs; each has a session of its own
	marks    map[string]bool // of programs that run
	doubtful map[int]bool    // those that had no mark at the last check and were stopped: they may have been in execve
}

// adopted is the state of this process, which adopts the orphans.
var adopted = orphans{sessions: map[int]bool{}, marks: map[string]bool{}, doubtful: map[int]bool{}} //nolint:gochecknoglobals // a process has one set of children

// expect notes the mark of a program that is about to start.
func (o *orphans) expect(mark string) {
	o.adopt.Do(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
		// Programs must not inherit descriptors that this process got from its own parent; since
		// Linux 5.11.
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

// ended ends the processes that a program has left behind. Call it after the program has ended. It
// waits up to orphanTime for the end of all orphans, those of other programs included.
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

// end kills the orphans that belong to no running program, stops those that may belong to one, and
// reaps those that have ended. It returns how many there were of all three. Only end reaps orphans,
// so a process ID is not reused between two checks.
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
		var end unix.Siginfo // Wait4 would report a stopped process that this one traces as ended
		if err := unix.Waitid(unix.P_PID, pid, &end, unix.WEXITED|unix.WNOHANG, nil); err != nil {
			continue
		}
		if end.Signo != 0 {
			left++ // its children may be orphans now
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
			_ = unix.Kill(pid, unix.SIGSTOP) // otherwise it could evade each check by forking and ending
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

// endTree kills an adopted process and its descendants. It stops all of them before it kills the
// first one: otherwise a killed process would make room for a new one under a limit of processes.
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

// signalChild sends a signal to a child of a parent. It sends nothing if the process ID is no
// longer that of such a child, and reports whether it sent the signal.
func signalChild(pid, parent int, signal unix.Signal) bool {
	fd, err := unix.PidfdOpen(pid, 0) // since Linux 5.3; without it the processes end one generation after another
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // only a handle
	return parentOf(pid) == parent && unix.PidfdSendSignal(fd, signal, nil, 0) == nil
}

// parentOf returns the ID of a process's parent; 0 if there is none.
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

// childrenOf returns the IDs of a process's living children.
func childrenOf(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is fine
	for _, file := range files {
		pids = append(pids, listed(file)...)
	}
	return pids
}

// children returns the processes that this one has adopted. They are the children of its main
// thread, which starts no processes itself.
func children() []int { return listed(childrenFile()) }

// listed returns the process IDs in a file of /proc or of a control group; none if the file does
// not exist.
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
