//go:build unix

package main

import (
	"errors"
	"syscall"
)

// stare has the kernel take little from a socket that is not read.
func stare(fd uintptr) error {
	return errors.Join(
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, stareBuffer),
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, stareSegment))
}
