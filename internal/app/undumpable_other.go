//go:build !linux

package app

// HideMemory does nothing on systems without support.
func HideMemory() error { return nil }
