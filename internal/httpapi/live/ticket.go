package live

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Routes of feeds, and of their tickets.
const (
	Route       = "/v1/namespaces/:ns/feed"
	TicketRoute = Route + "/tickets"
)

// IsFeed reports whether a route is one that pages of other origins may use, to read a feed.
func IsFeed(route string) bool { return route == Route || route == TicketRoute }

// feedOptions answers preflight requests for feeds.
func feedOptions(c echo.Context) error {
	methods := "GET, OPTIONS"
	if c.Path() == TicketRoute {
		methods = "POST, OPTIONS"
	}
	httpkit.Preflight(c, methods, echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderCacheControl, headerLastEventID, echo.HeaderXRequestID)
	return c.NoContent(http.StatusNoContent)
}

// TicketRequest is the body of a request for a ticket.
type TicketRequest struct {
	TTL *sluice.Duration `json:"ttl"`
}

// Ticket opens feeds of a namespace where a token cannot be sent.
type Ticket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url"` // URL of a feed, including the ticket
}

// postTicket answers POST /v1/namespaces/{ns}/feed/tickets with 201 for callers that may read some
// path. The ticket has the caller's rights in this namespace until it expires, or until the grant
// ends or is renewed. Nothing is stored. Codes NotFound for the namespace; InvalidRequest for the
// ttl.
func (s *Handler) postTicket(c echo.Context) error {
	a, err := s.needs.Authority()
	if err != nil {
		return err
	}
	var req TicketRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	ttl := grants.DefaultTicket
	if req.TTL != nil {
		ttl = req.TTL.Std()
	}
	ns := c.Param("ns")
	if _, err := s.needs.Namespace(c.Request().Context(), ns); err != nil {
		return err
	}
	text, until, err := a.Ticket(httpkit.Caller(c), ns, ttl)
	if err != nil {
		return err
	}
	at := strings.TrimSuffix(s.needs.PublicURL, "/") + strings.Replace(Route, ":ns", ns, 1) + "?" + url.Values{"ticket": {text}}.Encode()
	return c.JSON(http.StatusCreated, Ticket{text, until, at})
}

// Tickets returns the tickets in a request for a feed. It returns none for other routes, which do
// not accept tickets.
func Tickets(c echo.Context) []string {
	if c.Path() != Route || c.Request().Method != http.MethodGet {
		return nil
	}
	return c.QueryParams()["ticket"]
}

// Redeem returns the caller of a ticket. A request with both a token and a ticket is refused,
// because one may belong to another caller.
func (s *Handler) Redeem(c echo.Context, tickets []string) (sluice.Caller, error) {
	if len(tickets) > 1 || c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return sluice.Caller{}, sluice.Errorf(sluice.InvalidRequest, "send either one ticket or the header Authorization").With("field", "ticket")
	}
	a, err := s.needs.Authority()
	if err != nil {
		return sluice.Caller{}, err
	}
	return a.Redeem(c.Request().Context(), tickets[0], c.Param("ns"))
}
