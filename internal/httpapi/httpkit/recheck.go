package httpkit

import (
	"errors"
	"io"

	"github.com/labstack/echo/v4"
)

// Recheck makes the end of the request's body depend on a check, because the caller may lose its
// rights while the body arrives: a reader gets the error of the check in place of io.EOF.
func Recheck(c echo.Context, check func() error) {
	if c.Request().ContentLength != 0 {
		c.Request().Body = &checkedBody{ReadCloser: c.Request().Body, check: check}
	}
}

// CheckAgain makes the check of Recheck, for a body that is not read to its end.
func CheckAgain(c echo.Context) error {
	if b, ok := c.Request().Body.(*checkedBody); ok {
		return b.check()
	}
	return nil
}

// refused is an error of the check of Recheck, of any kind.
type refused struct{ error }

// Unwrap returns the error of the check.
func (r refused) Unwrap() error { return r.error }

// Refused reports whether the error of a body is that of the check of Recheck.
func Refused(err error) bool {
	_, ok := errors.AsType[refused](err)
	return ok
}

// checkedBody is a body with a check at its end, which is made once.
type checkedBody struct {
	io.ReadCloser

	check func() error
	end   error // nil: it has not ended
}

// Read returns the error of the check at the end.
func (b *checkedBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err //nolint:wrapcheck // a reader returns the error of the reader below it
	}
	b.end = io.EOF
	if err := b.check(); err != nil {
		b.end = refused{err}
	}
	return n, b.end
}
