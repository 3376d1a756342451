package httpapi

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Sends limits how often callers may trigger requests to endpoints.
type Sends interface {
	// PayForSend counts one request that the caller in ctx (sluice.CallerFrom) triggers to a
	// subscription's endpoint. Code QuotaExceeded, with retry_after, if the subscription or the
	// caller's principal has reached its limit.
	PayForSend(ctx context.Context, sub *sluice.Subscription) error
}

// paysForSend counts a request to the endpoint of the request's subscription. Codes: those of
// Sends.
func (s *Server) paysForSend(c echo.Context) error {
	if s.opts.Sends == nil {
		return nil
	}
	return s.opts.Sends.PayForSend(c.Request().Context(), subscriptionOf(c))
}
