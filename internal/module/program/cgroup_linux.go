package program

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	runGroups   = "run-"   // control groups of programs: run-<process of the server>-<number>
	serverGroup = "server" // group of the server's own process: a group with groups below it can have no processes
)

// Cgroup is the control group (version 2) that the administrator has delegated to this server. Each
// program has a group of its own below it, which limits the memory and the number of all its
// processes together, and with which all of them end. nil stands for none; its methods may be
// called. It is safe for concurrent use.
//
//	<delegated>/server/               this process
//	<delegated>/run-<pid>-<number>/   a program and all processes that it has started
type Cgroup struct {
	dir          string
	memory, pids bool // controllers that the groups below it have
	number       atomic.Uint64

	mu   sync.Mutex
	left []string // groups that could not be removed yet
}

// OpenCgroup returns the control group that was delegated to this process; nil if none was. Systemd
// delegates one with Delegate=, and container engines do with a control group namespace. OpenCgroup
// moves the process into a group below it, and ends the programs that a killed server has left
// there. Every call returns the same group, because a process moves only once.
func OpenCgroup() (*Cgroup, error) { return ofThisProcess() }

var ofThisProcess = sync.OnceValues(openDelegated) //nolint:gochecknoglobals // the process has one group

func openDelegated() (*Cgroup, error) {
	dir, err := ownGroup()
	if err != nil || dir == "" || !delegated(dir) {
		return nil, err
	}
	c, err := openCgroup(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, nil //nolint:nilnil // this process may not use it
	}
	return c, err
}

// ownGroup returns the directory of this process's control group; "" if the system has no control
// groups of version 2.
func ownGroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("control group: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("control group: %w", err)
	}
	return groupIn(groups, mounts), nil
}

// groupIn returns the directory of a process's control group of version 2, from the process's files
// cgroup and mountinfo in /proc (see cgroups(7), proc(5)).
func groupIn(groups, mounts []byte) string {
	var path string
	for line := range strings.Lines(string(groups)) {
		if own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = own
		}
	}
	if strings.HasPrefix(path, "/..") {
		return "" // outside of the namespace
	}
	for scan := bufio.NewScanner(bytes.NewReader(mounts)); path != "" && scan.Scan(); {
		mount, kind, _ := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// delegated reports whether the administrator has delegated a control group to its processes.
// Systemd marks such a group with an attribute. The root of a control group namespace is delegated,
// too, but not the root of the whole system, which has no type.
func delegated(dir string) bool {
	for _, mark := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, mark, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !slices.Contains(strings.Split(string(groups), "\n"), "0::/") {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, "cgroup.type"))
	return err == nil
}

func openCgroup(dir string) (*Cgroup, error) {
	c := &Cgroup{dir: dir}
	if err := c.removeLeft(); err != nil {
		return nil, err
	}
	own := filepath.Join(dir, serverGroup)
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // a control group
		return nil, fmt.Errorf("control group: %w", err)
	}
	if err := control(own, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return nil, err
	}
	for _, name := range []string{"memory", "pids"} {
		// The kernel refuses it if the controller is not delegated, or another process is in the
		// group. InForce returns the controllers that work.
		_ = control(dir, "cgroup.subtree_control", "+"+name)
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")) //nolint:gosec // of a control group
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	controllers := strings.Fields(string(has))
	c.memory, c.pids = slices.Contains(controllers, "memory"), slices.Contains(controllers, "pids")
	return c, nil
}

// removeLeft ends the programs of servers that have ended: a running one is in serverGroup.
func (c *Cgroup) removeLeft() error {
	servers := listed(filepath.Join(c.dir, serverGroup, "cgroup.procs"))
	groups, err := filepath.Glob(filepath.Join(c.dir, runGroups+"*"))
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for _, dir := range groups {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), runGroups), "-")
		server, err := strconv.Atoi(text)
		if err != nil || slices.Contains(servers, server) {
			continue // of another one
		}
		if err := endGroup(dir); err != nil {
			return err
		}
	}
	return nil
}

// InForce returns the restrictions that the control group enforces.
func (c *Cgroup) InForce() []string {
	if c == nil {
		return nil
	}
	all := []string{cgroupOf}
	if c.memory {
		all = append(all, cgroupMemory)
	}
	if c.pids {
		all = append(all, cgroupProcesses)
	}
	return all
}

// group is the control group of one program. The methods of a nil group do nothing.
type group struct {
	of    *Cgroup
	dir   string
	procs *os.File // the process whose ID is written to it enters the group
}

// group makes the control group of a program. Call it before the thread that starts the program is
// restricted.
func (c *Cgroup) group(l Limits) (*group, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	g := &group{of: c, dir: filepath.Join(c.dir, fmt.Sprintf("%s%d-%d", runGroups, os.Getpid(), c.number.Add(1)))}
	if err := os.Mkdir(g.dir, 0o755); err != nil { //nolint:gosec // a control group
		return nil, fmt.Errorf("control group: %w", err)
	}
	var err error
	if c.memory && l.Memory > 0 {
		err = errors.Join(control(g.dir, "memory.max", strconv.FormatUint(l.Memory, 10)), control(g.dir, "memory.oom.group", "1"))
	}
	if c.pids && l.Processes > 0 {
		err = errors.Join(err, control(g.dir, "pids.max", strconv.FormatUint(l.Processes, 10)))
	}
	if err == nil {
		g.procs, err = os.OpenFile(filepath.Join(g.dir, "cgroup.procs"), os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	return g, nil
}

// enter moves a program that has just started into the group, with the processes that it has
// started meanwhile. Starting it in the group would take the call clone3, which programs, and so
// the thread that starts them, are denied. A traced program does not run before this call. Without
// tracing, only its resource limits bound it until then.
func (g *group) enter(pid int) error {
	if g == nil {
		return nil
	}
	entered := map[int]bool{}
	for all := []int{pid}; len(all) > 0; {
		for _, each := range all {
			entered[each] = true
			if _, err := g.procs.WriteString(strconv.Itoa(each)); err != nil && !errors.Is(err, syscall.ESRCH) { // ESRCH: it has ended
				return err //nolint:wrapcheck // it names the file
			}
		}
		all = slices.DeleteFunc(descendants(pid), func(each int) bool { return entered[each] })
	}
	return nil
}

// descendants returns the children of a process, their children, and so on. Processes that have
// lost their parent are not among them; they are ended as orphans.
func descendants(pid int) (pids []int) {
	for _, child := range childrenOf(pid) {
		pids = append(append(pids, child), descendants(child)...)
	}
	return pids
}

// end ends all processes of the group, and removes it.
func (g *group) end() {
	if g == nil {
		return
	}
	_ = g.procs.Close() // nothing is buffered
	err := endGroup(g.dir)
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.left = slices.DeleteFunc(g.of.left, func(dir string) bool { return os.Remove(dir) == nil })
	if err != nil { // a killed process has not ended yet
		g.of.left = append(g.of.left, g.dir)
	}
}

// endGroup ends all processes of a control group, and removes it.
func endGroup(dir string) error {
	if os.Remove(dir) == nil {
		return nil // the group is empty
	}
	if err := control(dir, "cgroup.kill", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // since Linux 5.14
		return err
	}
	for began := time.Now(); ; <-time.After(orphanPause) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Since(began) > orphanTime {
			return fmt.Errorf("control group: %w", err)
		}
	}
}

// control writes to a file of a control group.
func control(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}
