//go:build unix

package bundle_test

import "syscall"

func mkfifo(file string, mode uint32) error { return syscall.Mkfifo(file, mode) }
