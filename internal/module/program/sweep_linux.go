package program

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Sweep kills all processes that have a variable in their environment, "NAME=value", and returns when there is none left. A
// process that hides its environment is not found.
func Sweep(variable string) error {
	for {
		found, err := withVariable(variable)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, pid := range found {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err //nolint:wrapcheck // the caller says what for
			}
		}
		time.Sleep(time.Millisecond) // until they are gone
	}
}

func withVariable(variable string) (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of /proc
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended, or is another user's
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the file
		}
		for entry := range bytes.SplitSeq(text, []byte{0}) {
			if string(entry) == variable {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err == nil && pid != os.Getpid() {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids, err //nolint:wrapcheck // the pattern is fine
}
