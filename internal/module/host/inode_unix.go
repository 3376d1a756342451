//go:build unix

package host

import (
	"io/fs"
	"strconv"
	"syscall"
)

// inode returns a text that differs if another file replaces a file: its inode and size.
func inode(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(stat.Ino), 10) + " " + strconv.FormatInt(stat.Size, 10) //nolint:unconvert // of another type elsewhere
	}
	return ""
}
