//go:build !linux

package program

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// User is the user that programs run as, if the server is root.
type User struct{ UID, GID uint32 }

// Runner runs programs, which it does on Linux alone.
type Runner struct{ As *User }

// Run returns an error (Unavailable).
func (*Runner) Run(context.Context, Program) (Result, error) {
	return Result{}, sluice.Errorf(sluice.Unavailable, "programs of modules run on Linux only")
}

// InForce returns none.
func InForce() []string { return nil }

// Sweep finds none.
func Sweep(string) error { return nil }
