package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	feedRoute   = "/v1/namespaces/:ns/feed"
	ticketRoute = feedRoute + "/tickets"
)

// isFeed reports whether pages of other origins use a route to read a feed.
func isFeed(route string) bool { return route == feedRoute || route == ticketRoute }

// feedOptions answers preflight requests for feeds.
func feedOptions(c echo.Context) error {
	methods := "GET, OPTIONS"
	if c.Path() == ticketRoute {
		methods = "POST, OPTIONS"
	}
	httpkit.Preflight(c, methods, echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderCacheControl, headerLastEventID, echo.HeaderXRequestID)
	return c.NoContent(http.StatusNoContent)
}

// ticketRequest is the body of a POST.
type ticketRequest struct {
	TTL *sluice.Duration `json:"ttl"`
}

// feedTicket opens feeds of a namespace where a token cannot be sent.
type feedTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url"` // URL of a feed, including the ticket
}

func (s *Server) postTicket(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	var req ticketRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	ttl := grants.DefaultTicket
	if req.TTL != nil {
		ttl = req.TTL.Std()
	}
	ns := c.Param("ns")
	if _, err := s.opts.Namespaces.Namespace(c.Request().Context(), ns); err != nil {
		return err
	}
	text, until, err := a.Ticket(httpkit.Caller(c), ns, ttl)
	if err != nil {
		return err
	}
	at := strings.TrimSuffix(s.opts.Streams.PublicURL, "/") + strings.Replace(feedRoute, ":ns", ns, 1) + "?" + url.Values{"ticket": {text}}.Encode()
	return c.JSON(http.StatusCreated, feedTicket{text, until, at})
}

// ticketsOf returns the tickets in a request for a feed; other routes accept none.
func ticketsOf(c echo.Context) []string {
	if c.Path() != feedRoute || c.Request().Method != http.MethodGet {
		return nil
	}
	return c.QueryParams()["ticket"]
}

// redeem returns the caller of a ticket. A request with both a token and a ticket is refused,
// because one may belong to another caller.
func (s *Server) redeem(c echo.Context, tickets []string) (sluice.Caller, error) {
	if len(tickets) > 1 || c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return sluice.Caller{}, sluice.Errorf(sluice.InvalidRequest, "send either one ticket or the header Authorization").With("field", "ticket")
	}
	a, err := s.authority()
	if err != nil {
		return sluice.Caller{}, err
	}
	return a.Redeem(c.Request().Context(), tickets[0], c.Param("ns"))
}

// guesses reports whether an unauthenticated request contains possibly made-up credentials. A
// ticket that was once valid does not count.
func guesses(c echo.Context, e *sluice.Error) bool {
	if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return true
	}
	reason, _ := e.Details["reason"].(string)
	return len(ticketsOf(c)) > 0 && slices.Contains([]authz.Reason{authz.Malformed, authz.Forged}, authz.Reason(reason))
}
