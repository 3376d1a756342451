//go:build !unix

package endpoint

// quiet returns true: this platform cannot tell whether anything has arrived on a free connection.
func (*wire) quiet() bool { return true }
