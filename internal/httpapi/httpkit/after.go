package httpkit

import (
	"context"

	"github.com/labstack/echo/v4"
)

// afterKey is the context key of the work that continues after the request.
const afterKey = "after"

// After is work that continues after a request, on a hijacked connection. It runs in a goroutine of
// its own: the stack of the request's goroutine has grown while it served the request, and
// thousands of connections may be open.
type After struct {
	// Run returns when ctx ends, which end or the server's shutdown causes. Its error, if any, is
	// logged.
	Run  func(ctx context.Context, end context.CancelFunc) error
	Sent func() int64 // bytes sent
	End  func()       // closes the connection; called last
}

// SetAfter sets the work that continues after a request.
func SetAfter(c echo.Context, a After) { c.Set(afterKey, a) }

// AfterOf returns the work that continues after a request, and whether there is any.
func AfterOf(c echo.Context) (After, bool) {
	a, ok := c.Get(afterKey).(After)
	return a, ok
}
