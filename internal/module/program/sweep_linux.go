package program

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// sweepTime limits the wait for the end of killed processes.
const sweepTime = 10 * time.Second

var errLeft = errors.New("a process that was killed is still there")

// Sweep kills all processes with an environment variable that begins with a text such as
// "SLUICE_RUN=…", and returns when none is left. It does not find a process that hides its
// environment. It does not find a process whose environment this process may not read. If a process
// is left after sweepTime, it returns an error.
func Sweep(variable string) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Millisecond), backoff.WithMaxElapsedTime(sweepTime))
	return backoff.Retry(func() error {
		found, err := withVariable(variable)
		if err != nil {
			return backoff.Permanent(err)
		}
		for _, pid := range found {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return backoff.Permanent(err)
			}
		}
		if len(found) > 0 {
			return errLeft
		}
		return nil
	}, wait)
}

// withVariable returns the processes, except this one, with an environment variable that begins
// with a text.
func withVariable(variable string) (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err //nolint:wrapcheck // the pattern is fine
	}
	for _, file := range files {
		has, err := hasVariable(file, variable)
		if err != nil {
			return nil, err
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if has && err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// hasVariable reports whether an environment file in /proc has a variable that begins with a text.
// The file of a process that has ended, or of another user, has none.
func hasVariable(file, variable string) (bool, error) {
	text, err := os.ReadFile(file) //nolint:gosec // of /proc
	for _, harmless := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ESRCH} {
		if errors.Is(err, harmless) {
			return false, nil
		}
	}
	return slices.ContainsFunc(bytes.Split(text, []byte{0}), func(entry []byte) bool { return bytes.HasPrefix(entry, []byte(variable)) }), err
}
