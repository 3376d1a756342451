package httpapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// authenticate identifies the caller: a request to the API, whether its route exists or not,
// requires the root token or the token of a valid grant.
func (s *Server) authenticate(c echo.Context) error {
	if !isAPI(c.Request().URL.Path) && !isAPI(c.Path()) {
		return nil
	}
	if c.Request().Method == http.MethodOptions || dstreams.Tokenless(c.Path()) || opensSession(c) { // preflight requests have no token, workers send that of a wake, and pages the code of a link
		return nil
	}
	if s.isProgram(c) {
		return s.authenticateProgram(c)
	}
	caller, err := s.callerOf(c)
	if err != nil {
		return err
	}
	c.SetRequest(c.Request().WithContext(model.WithCaller(c.Request().Context(), caller)))
	return nil
}

// callerOf returns the caller of a request that needs one: the anonymous caller for a stream of a
// namespace that is open to it, else the caller of the ticket or of the token. Codes
// Unauthenticated, with the reason in the details for a grant that has ended; InvalidRequest for a
// ticket beside a token; Unavailable.
func (s *Server) callerOf(c echo.Context) (sluice.Caller, error) {
	if s.streams.Anonymous(c) {
		return sluice.Caller{Principal: sluice.Anonymous}, nil
	}
	if tickets := live.Tickets(c); len(tickets) > 0 {
		return s.feeds.Redeem(c, tickets)
	}
	return s.identify(c)
}

// identify returns the caller of a request's token. The root token and the given token are hashed
// before they are compared, so that the duration of the comparison reveals nothing, not even a
// length.
func (s *Server) identify(c echo.Context) (sluice.Caller, error) {
	scheme, token, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	token = strings.TrimSpace(token)
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		return sluice.Caller{}, sluice.Errorf(sluice.Unauthenticated, "send the header Authorization: Bearer <token>; the root token is in the file root.token of the data directory")
	}
	got := sha256.Sum256([]byte(token))
	if s.opts.Token != "" && subtle.ConstantTimeCompare(got[:], s.root[:]) == 1 {
		return sluice.Caller{Principal: sluice.Root}, nil
	}
	if s.opts.Authority != nil && authz.IsToken(token) {
		return s.opts.Authority.Authenticate(c.Request().Context(), token)
	}
	return sluice.Caller{}, sluice.Errorf(sluice.Unauthenticated, "the token is neither this server's root token nor one of its grants'")
}

// Programs identifies the programs of modules.
type Programs interface {
	// Handling returns the handling of the program that holds a token. Code Unauthenticated.
	Handling(token string) (*model.Handling, error)
}

// isProgram reports whether a request has the token of a module's program.
func (s *Server) isProgram(c echo.Context) bool {
	return s.opts.Programs != nil && model.OfProgram(httpkit.Bearer(c.Request().Header))
}

// authenticateProgram identifies the program of a request. A program may make few kinds of
// requests, all in the namespace of the event that it handles. Its principal has no rights of its
// own: the handler of each request checks what the module declares and what its approver may do.
func (s *Server) authenticateProgram(c echo.Context) error {
	h, err := s.opts.Programs.Handling(httpkit.Bearer(c.Request().Header))
	if err != nil {
		return err
	}
	if c.Param("ns") != h.Namespace || !programMay(h, c.Request().Method+" "+c.Path()) {
		return sluice.Errorf(sluice.Forbidden, "the token of a program permits, in the namespace of the event that it handles, what its module declares: to publish events, and to read events and state")
	}
	ctx := model.WithCaller(model.WithHandling(c.Request().Context(), h), sluice.Caller{Principal: h.Producer()})
	c.SetRequest(c.Request().WithContext(ctx))
	return nil
}

// programMay reports whether the declarations of a program's module permit requests of a route.
func programMay(h *model.Handling, route string) bool {
	switch route {
	case http.MethodPost + " /v1/namespaces/:ns/events":
		return len(h.Publish) > 0 && !h.Test
	case http.MethodGet + " /v1/namespaces/:ns/events", http.MethodGet + " /v1/namespaces/:ns/events/:event",
		http.MethodGet + " /v1/namespaces/:ns/state", http.MethodGet + " /v1/namespaces/:ns/state/*":
		return len(h.Read) > 0
	}
	return false
}

// subscriptionKey is the context key of the request's subscription.
const subscriptionKey = "subscription"

// owned requires a subscription that the caller manages: its own, with a token that has the verb
// subscribe for it, or one of a namespace that it administers (C16). Other subscriptions look
// missing (C14).
func (s *Server) owned(c echo.Context) error {
	sub, err := s.opts.Registry.Get(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	if err := s.owns(c, sub); err != nil {
		return err
	}
	c.Set(subscriptionKey, sub)
	return nil
}

// edited is owned for operations reserved to admins of the namespace, for any subscription (S4-69).
func (s *Server) edited(c echo.Context) error {
	if err := s.owned(c); err != nil {
		return err
	}
	return s.rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: subscriptionOf(c).Namespace})
}

// subscriptionOf returns the request's subscription.
func subscriptionOf(c echo.Context) *sluice.Subscription {
	sub, _ := c.Get(subscriptionKey).(*sluice.Subscription) // set by owned
	return sub
}

// owns returns nil for an admin of the namespace, and for the owner as long as it may subscribe to
// the subscription's object (S0-08, C16). Codes SubscriptionMissing for others (C14);
// CapabilityRequired or Forbidden for an owner that may not; Unavailable if that cannot be decided
// yet.
func (s *Server) owns(c echo.Context, sub *sluice.Subscription) error {
	admin := s.rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: sub.Namespace})
	switch {
	case admin == nil || sluice.CodeOf(admin) == sluice.Unavailable:
		return admin
	case !s.isOwner(c, sub):
		return sluice.Errorf(sluice.SubscriptionMissing, "subscription not found, or not visible to you")
	}
	return s.rights.Require(c, sluice.VerbSubscribe, authz.TargetOf(sub.Object()))
}

// isOwner reports whether the caller, under a grant, owns the subscription.
func (s *Server) isOwner(c echo.Context, sub *sluice.Subscription) bool {
	return sub.CreatedBy == httpkit.By(c) && s.rights.Same(c, sub.Grant, sub.Namespace)
}

// startsAtShown returns NotFound if one of the cursors names an event that is hidden from the
// caller.
func (s *Server) startsAtShown(c echo.Context, v sluice.Verb, namespace string, cursors ...string) error {
	for _, text := range cursors {
		at, err := sluice.ParseCursor(text)
		if err != nil || at.Kind != sluice.CursorEvent || httpkit.Caller(c).Unbounded() {
			continue
		}
		ev, err := s.opts.Log.EventByID(c.Request().Context(), namespace, text)
		if err != nil {
			return err
		}
		if ok, err := s.rights.Shows(c, v, &ev); err != nil || !ok {
			return cmp.Or(err, authz.Concealed())
		}
	}
	return nil
}

// knows reports whether the caller may see the deliveries of a subscription's events on a path.
func (s *Server) knows(c echo.Context, sub *sluice.Subscription, path sluice.Path) bool {
	return s.rights.Require(c, sluice.VerbSubscribe, authz.Target{Namespace: sub.Namespace, Path: path}) == nil
}

// knowsOf is knows for one event. A nil ev is an event that is no longer in the log. A grant for an
// entity does not name the paths of its events, so the event itself is checked.
func (s *Server) knowsOf(c echo.Context, sub *sluice.Subscription, path sluice.Path, ev *sluice.Event) bool {
	if s.knows(c, sub, path) {
		return true
	}
	if ev == nil || sub.Object().Entity == "" {
		return false
	}
	ok, err := s.rights.Shows(c, sluice.VerbSubscribe, ev)
	return ok && err == nil
}

// knowsPlace is knowsOf for the event at a sequence.
func (s *Server) knowsPlace(c echo.Context, sub *sluice.Subscription, path sluice.Path, seq uint64) bool {
	if ok := s.knows(c, sub, path); ok || sub.Object().Entity == "" {
		return ok
	}
	ev, err := s.opts.Log.EventAt(c.Request().Context(), sub.Namespace, seq)
	return err == nil && s.knowsOf(c, sub, path, &ev)
}

// seesEvent requires that the caller may see an event of a subscription's namespace. For an event
// that is no longer stored, access was decided when it was sent.
func (s *Server) seesEvent(c echo.Context, sub *sluice.Subscription, event string) error {
	if httpkit.Caller(c).Unbounded() {
		return nil
	}
	ev, err := s.findEvent(c.Request().Context(), sub.Namespace, event)
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes go to the caller
	case "":
	case sluice.NotFound, sluice.WindowExceeded:
		return nil
	default:
		return err
	}
	return s.seesThis(c, &ev)
}

// seesThis requires that the caller may see an event of a subscription that it manages.
func (s *Server) seesThis(c echo.Context, ev *sluice.Event) error {
	ok, err := s.rights.Shows(c, sluice.VerbSubscribe, ev)
	if err == nil && !ok {
		return authz.Concealed()
	}
	return err
}
