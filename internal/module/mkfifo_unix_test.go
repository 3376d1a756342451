//go:build unix

package module_test

import "syscall"

func mkfifo(file string, mode uint32) error { return syscall.Mkfifo(file, mode) }
