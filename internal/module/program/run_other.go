//go:build !linux

package program

import (
	"context"
	"os"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// User is the user that programs run as, if the server is root.
type User struct {
	Name     string
	UID, GID uint32
}

// Runner runs programs, which is supported on Linux only.
type Runner struct {
	As     *User
	Cgroup *Cgroup
}

// Cgroup is a control group of Linux.
type Cgroup struct{}

// OpenCgroup returns none.
func OpenCgroup() (*Cgroup, error) { return nil, nil } //nolint:nilnil // there are none

// InForce returns nothing.
func (*Cgroup) InForce() []string { return nil }

// Run returns an error (Unavailable).
func (*Runner) Run(context.Context, Program) (Result, error) {
	return Result{}, sluice.Errorf(sluice.Unavailable, "programs of modules run on Linux only")
}

// InForce returns none.
func InForce() []string { return nil }

// RemoveTemp removes a directory.
func RemoveTemp(dir string) error { return os.RemoveAll(dir) }

// Sweep finds none.
func Sweep(string) error { return nil }

// Process is a running program. There is none on this system.
type Process struct {
	In, Out *os.File
	Log     *Tail
}

// Start returns an error (Unavailable).
func (*Runner) Start(Program) (*Process, error) {
	return nil, sluice.Errorf(sluice.Unavailable, "programs of modules run on Linux only")
}

// Done returns nil.
func (*Process) Done() <-chan struct{} { return nil }

// Exit returns nothing.
func (*Process) Exit() module.Exit { return module.Exit{} }

// Stop does nothing.
func (*Process) Stop() {}

// Kill does nothing.
func (*Process) Kill() {}

// Close does nothing.
func (*Process) Close() {}
