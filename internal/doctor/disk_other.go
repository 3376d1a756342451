//go:build !unix

package doctor

import "errors"

// freeBytes is not supported on this system; it returns an error.
func freeBytes(string) (uint64, error) {
	return 0, errors.New("unknown on this system")
}
