//go:build !unix

package main

import "errors"

// freeBytes is not supported here.
func freeBytes(string) (uint64, error) {
	return 0, errors.New("unknown on this system")
}
