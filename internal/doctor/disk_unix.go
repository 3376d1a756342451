//go:build unix

package doctor

import (
	"fmt"
	"syscall"
)

// freeBytes returns the free bytes of a directory's file system. They are those that users without
// privileges can use.
func freeBytes(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("disk of %s: %w", dir, err)
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil //nolint:gosec,unconvert // other types on other systems
}
