package program

import (
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/module"
)

// Program is one run of a program. Timeout must be positive for Run.
type Program struct {
	Path  string   // of the file
	Args  []string // without the program's name
	Dir   string   // working directory, which the program may read
	Temp  string   // a directory that the program may write; "": none
	Env   []string // the whole environment
	Mark  string   // an entry of Env, "SLUICE_RUN=…", unique to this run: it identifies the run's processes
	Input []byte   // standard input

	Timeout time.Duration // after which it is asked to end
	Grace   time.Duration // after Timeout, until it is killed
	Output  int           // bytes of standard output and error that are kept
	Apart   int           // bytes of standard output that are kept apart from standard error; 0: both are kept together
	Limits  Limits
	Network bool // it may make connections
}

// MarkName is the environment variable with the unique value of each run.
const MarkName = "SLUICE_RUN"

// Limits bound the resources of each process of a program; zero: unlimited.
type Limits struct {
	Memory    uint64        // bytes of address space; with a control group also bytes of memory of all processes
	Processor time.Duration // time, rounded up to whole seconds
	Files     uint64        // open at once
	FileSize  uint64        // bytes
	Processes uint64        // in the control group, and of the user that programs run as; unlimited without either
	TempSize  uint64        // bytes in the temporary directory
	TempFiles uint64        // files and directories in the temporary directory
}

// Result is the result of a run. Output and Printed may be cut within a character.
type Result struct {
	Exit      module.Exit
	Output    string // standard output and error, in the order in which they arrived
	Truncated bool   // there was more

	Printed  []byte // standard output, if it is kept apart
	Overflow bool   // there was more standard output
}

// Known returns the restrictions that a server may have in force, in the order in which they are listed.
func Known() []string {
	return []string{processGroup, resourceLimits, noNewPrivs, limitsAtStart, LandlockFiles, landlockSignals, SeccompNetwork, seccompCalls, cgroupOf, cgroupMemory, cgroupProcesses}
}

// The restrictions.
const (
	processGroup    = "process group"
	resourceLimits  = "resource limits"
	noNewPrivs      = "no_new_privs"
	limitsAtStart   = "limits from the start (ptrace)"
	LandlockFiles   = "files (Landlock)"
	landlockSignals = "signals (Landlock)"
	SeccompNetwork  = "network (seccomp)"
	seccompCalls    = "system calls (seccomp)"
	cgroupOf        = "control group"
	cgroupMemory    = "memory in sum (cgroup)"
	cgroupProcesses = "processes (cgroup)"
)

// output keeps the first most bytes that are written to it, and drops the others. It never fails a
// write: the timeout ends a program that writes without end. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	most int
	kept []byte
	more bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := min(len(p), o.most-len(o.kept))
	o.kept = append(o.kept, p[:take]...)
	o.more = o.more || take < len(p)
	return len(p), nil
}

func (o *output) text() (kept string, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.more
}
