//go:build !linux

package app

import "net"

// bounded is a listener with the system's default buffers.
type bounded struct{ net.Listener }
