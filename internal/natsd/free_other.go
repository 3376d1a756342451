//go:build !unix

package natsd

import "errors"

// Free is not supported on this system; it returns an error.
func Free(string) (uint64, error) {
	return 0, errors.New("not known on this system")
}
