package httpapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// afterKey is the context key of the work that continues after the request.
const afterKey = "after"

// after is work that continues after a request, on a hijacked connection. It runs on a stack of its
// own, because the request's stack has grown while serving it, and there may be thousands.
type after struct {
	// Runs until ctx ends, with the server or by end; returns the reason if it should be logged.
	run  func(ctx context.Context, end context.CancelFunc) error
	sent func() int64 // bytes sent
	end  func()       // closes the connection; waiting for it waits for everything
}

// goOn starts the work that continues after a request, and reports whether there is any.
func (s *Server) goOn(c echo.Context, began time.Time) bool {
	a, ok := c.Get(afterKey).(after)
	if !ok {
		return false
	}
	ctx, cancel := s.untilStop(context.WithoutCancel(c.Request().Context()))
	r := servedOf(c) // of this request; the context is reused soon
	go func() {
		defer a.end()
		defer cancel()
		err := a.guarded(ctx, cancel)
		if err != nil && httpkit.Public(err).Code == sluice.Internal {
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
