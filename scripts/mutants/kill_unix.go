//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killWhole has a command killed with all that it started. It must be called before the command
// starts.
func killWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
