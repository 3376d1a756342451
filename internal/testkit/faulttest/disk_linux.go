package faulttest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// SmallDisk returns an empty directory on a file system of size bytes, and a function that changes
// the size. It skips the test if the process may not mount a file system. It is unmounted when the
// test ends. Its content is lost then.
func SmallDisk(t *testing.T, size int) (dir string, resize func(int)) {
	t.Helper()
	dir = t.TempDir()
	mount := func(size int, flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%d", size))
	}
	err := mount(size, 0)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("it may not mount a small disk")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir, func(size int) { require.NoError(t, mount(size, syscall.MS_REMOUNT)) }
}
