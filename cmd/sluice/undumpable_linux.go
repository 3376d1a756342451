package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hideMemory prevents other processes of the same user from reading this process's memory, which
// holds keys and tokens, and the kernel from writing the memory to a core dump.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}
