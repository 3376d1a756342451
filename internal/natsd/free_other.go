//go:build !unix

package natsd

import "errors"

// Free is not supported here.
func Free(string) (uint64, error) {
	return 0, errors.New("not known on this system")
}
