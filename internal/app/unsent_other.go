//go:build !linux

package app

import "net"

// bounded is a listener whose connections take for readers that take nothing what the system lets them.
type bounded struct{ net.Listener }
