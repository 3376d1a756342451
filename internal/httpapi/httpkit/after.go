package httpkit

import (
	"context"

	"github.com/labstack/echo/v4"
)

// afterKey is the context key of the work that continues after the request.
const afterKey = "after"

// After is work that continues after a request, on a hijacked connection. It runs on a stack of its
// own, because the request's stack has grown while serving it, and there may be thousands.
type After struct {
	// Runs until ctx ends, with the server or by end; returns the reason if it should be logged.
	Run  func(ctx context.Context, end context.CancelFunc) error
	Sent func() int64 // bytes sent
	End  func()       // closes the connection; waiting for it waits for everything
}

// SetAfter sets the work that continues after a request.
func SetAfter(c echo.Context, a After) { c.Set(afterKey, a) }

// AfterOf returns the work that continues after a request, and whether there is any.
func AfterOf(c echo.Context) (After, bool) {
	a, ok := c.Get(afterKey).(After)
	return a, ok
}
