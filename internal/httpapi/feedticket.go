package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/access"
	"github.com/sluice-io/sluice/internal/authority"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	feedRoute   = "/v1/namespaces/:ns/feed"
	ticketRoute = feedRoute + "/tickets"
)

// isFeed reports whether a route is one that pages of other origins use to read a feed.
func isFeed(route string) bool { return route == feedRoute || route == ticketRoute }

// feedOptions says what a page of another origin may ask.
func feedOptions(c echo.Context) error {
	methods := "GET, OPTIONS"
	if c.Path() == ticketRoute {
		methods = "POST, OPTIONS"
	}
	allow(c, methods, echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderCacheControl, headerLastEventID, echo.HeaderXRequestID)
	return c.NoContent(http.StatusNoContent)
}

// ticketRequest is what can be said about a ticket.
type ticketRequest struct {
	TTL *sluice.Duration `json:"ttl"`
}

// feedTicket is a ticket: what opens feeds of a namespace instead of a token, where that cannot be sent.
type feedTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url"` // of a feed, with the ticket
}

func (s *Server) postTicket(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	var req ticketRequest
	if err := bind(c, &req); err != nil {
		return err
	}
	ttl := authority.DefaultTicket
	if req.TTL != nil {
		ttl = req.TTL.Std()
	}
	ns := c.Param("ns")
	if _, err := s.opts.Namespaces.Namespace(c.Request().Context(), ns); err != nil {
		return err
	}
	text, until, err := a.Ticket(caller(c), ns, ttl)
	if err != nil {
		return err
	}
	at := s.baseURL() + strings.Replace(feedRoute, ":ns", ns, 1) + "?" + url.Values{"ticket": {text}}.Encode()
	return c.JSON(http.StatusCreated, feedTicket{text, until, at})
}

// ticketsOf returns the tickets that a request shows: a feed's, and no other's.
func ticketsOf(c echo.Context) []string {
	if c.Path() != feedRoute || c.Request().Method != http.MethodGet {
		return nil
	}
	return c.QueryParams()["ticket"]
}

// redeem returns who reads a feed with a ticket. In a request that shows a token, too, one of them is somebody else's.
func (s *Server) redeem(c echo.Context, tickets []string) (sluice.Caller, error) {
	if len(tickets) > 1 || c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return sluice.Caller{}, sluice.Errorf(sluice.InvalidRequest, "send one ticket, or the header Authorization, not both").With("field", "ticket")
	}
	a, err := s.authority()
	if err != nil {
		return sluice.Caller{}, err
	}
	return a.Redeem(c.Request().Context(), tickets[0], c.Param("ns"))
}

// guesses reports whether a request that is not authenticated showed something that it may have made up. Whoever comes back
// with a ticket that was good has not.
func guesses(c echo.Context, e *sluice.Error) bool {
	if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return true
	}
	reason, _ := e.Details["reason"].(string)
	return len(ticketsOf(c)) > 0 && slices.Contains([]access.Reason{access.Malformed, access.Forged}, access.Reason(reason))
}
