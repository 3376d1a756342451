//go:build unix

package staging

import (
	"errors"
	"syscall"
)

// full converts an error of a full disk to one that says so (Unavailable). It returns other errors
// unchanged.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return noSpace("the disk is full, and the import has ended; free space, and import again: it goes on where it was")
	}
	return err
}
