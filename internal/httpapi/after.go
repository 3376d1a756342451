package httpapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// afterKey is where a request keeps what goes on of it when it has been served.
const afterKey = "after"

// after is what goes on of a request that has been served, on a connection that it has taken over. It begins with a stack of
// its own: that of a request has grown by what was done to serve it, and there may be thousands.
type after struct {
	run  func(ctx context.Context, end context.CancelFunc) error // until ctx ends, with the server or by end; why it is over, if that is to be logged
	sent func() int64                                            // bytes
	end  func()                                                  // closes what it has open; whoever waits for that waits for all of it
}

// goOn begins what goes on of a request when it has been served, and reports whether there is something.
func (s *Server) goOn(c echo.Context, began time.Time) bool {
	a, ok := c.Get(afterKey).(after)
	if !ok {
		return false
	}
	ctx, cancel := s.untilStop(context.WithoutCancel(c.Request().Context()))
	r := servedOf(c) // of the request, which is another one's soon
	go func() {
		defer a.end()
		defer cancel()
		err := a.guarded(ctx, cancel)
		if err != nil && public(err).Code == sluice.Internal {
			r.level = slog.LevelError
		}
		r.bytes = a.sent()
		s.log(ctx, r, time.Since(began), err)
	}()
	return true
}

// guarded returns a panic as an error.
func (a after) guarded(ctx context.Context, end context.CancelFunc) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = p
		}
	}()
	return a.run(ctx, end)
}
