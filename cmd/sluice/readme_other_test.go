//go:build !linux

package main

// isolated is a command of Linux.
func isolated() {}
