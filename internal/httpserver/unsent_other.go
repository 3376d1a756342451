//go:build !linux

package httpserver

import "net"

// bounded is a listener with the system's default buffers.
type bounded struct{ net.Listener }
