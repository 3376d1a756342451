package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/console"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// route is a request of the API, with its access requirement.
type route struct {
	method string
	path   string
	demand demand
	handle echo.HandlerFunc
}

// of converts a route of httpkit, which other packages declare.
func of(r httpkit.Route) route {
	return route{r.Method, r.Path, func(_ *Server, c echo.Context) error { return r.Demand(c) }, r.Handle}
}

// guard returns a handler that checks the requirement of a route before it calls the route's
// handler.
func (s *Server) guard(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := r.demand(s, c); err != nil {
			return err
		}
		if err := s.hasRoom(r); err != nil {
			return err
		}
		return s.once(c, r.handle)
	}
}

// hasRoom returns an error if a request of the route adds to a store that may not grow.
func (s *Server) hasRoom(r route) error {
	if s.opts.Room == nil || !grows(r) {
		return nil
	}
	return s.opts.Room.Grow()
}

// grows reports whether requests of a route add to the store. All others free space, revoke
// permissions, change existing data or write nothing, so they are attempted even if the store is
// full. Events are refused earlier than the rest, by their log.
func grows(r route) bool {
	switch r.method + " " + r.path {
	case "POST /v1/namespaces/:ns/events",
		"PUT " + dstreams.Streams,
		"POST " + dstreams.Streams,
		"POST /v1/subscriptions",
		"POST /v1/subscriptions/batch",
		"POST /v1/namespaces/:ns/subscriptions",
		"POST /v1/modules/:module/approve",
		"PUT /v1/subscriptions/:id",
		"POST /v1/subscriptions/:id/test",
		"POST /v1/subscriptions/:id/probe",
		"POST /v1/subscriptions/:id/retry",
		"POST /v1/subscriptions/:id/replay",
		"POST /v1/subscriptions/:id/deliveries/:event/retry",
		"POST /v1/subscriptions/:id/dead-letters/redrive",
		"POST /v1/grants",
		"POST /v1/grants/:grant/renew",
		"POST " + linksRoute,
		"POST " + sessionsRoute,
		"PUT /v1/namespaces/:ns/watches/:id",
		"PUT /v1/namespaces/:ns/appointments/:id",
		"PUT " + dstreams.Subscription,
		"POST " + dstreams.Subscription + "/streams",
		"PUT /v1/namespaces/:ns/event-types/:type",
		"PUT /v1/namespaces/:ns/trusted-keys/:kid",
		"PUT /v1/namespaces/:ns/enrichment",
		"POST /v1/namespaces/:ns/jobs/claim",
		"POST /v1/namespaces/:ns/jobs/:job/complete":
		return true
	}
	return false
}

// routes returns all routes. Requirements that depend on the request's body or the result are
// checked by the handler: publishing by path, lists by visibility.
func (s *Server) routes() []route {
	all := []route{
		{http.MethodGet, "/livez", open, s.healthz},
		{http.MethodHead, "/livez", open, s.healthz},
		{http.MethodGet, "/healthz", open, s.healthz},
		{http.MethodHead, "/healthz", open, s.healthz},
		{http.MethodGet, "/readyz", open, s.readyz},
		{http.MethodHead, "/readyz", open, s.readyz},
		{http.MethodGet, "/metrics", metricsReader, echo.WrapHandler(s.opts.Metrics)},
		{http.MethodGet, "/", open, s.describe},
		{http.MethodGet, "/docs", open, s.docs},
		{http.MethodGet, stylePath, open, s.docsStyle},
		{http.MethodGet, "/openapi.yaml", open, s.openapi},
		{http.MethodGet, "/openapi.json", open, s.openapiJSON},
		{http.MethodGet, "/.well-known/jwks.json", open, s.jwks},
		{http.MethodPost, callbackRoute, open, s.callback},

		{http.MethodGet, "/v1/capabilities", authenticated, s.capabilities},
		{http.MethodGet, "/v1/whoami", authenticated, s.whoami},
		{http.MethodGet, "/v1/storage", serverAdmin, s.storage},
		{http.MethodPost, "/v1/storage/verify", serverAdmin, s.verifyStorage},
		{http.MethodDelete, "/v1/storage/damage", serverAdmin, s.forgetDamage},
		{http.MethodGet, "/v1/audit", ledgerAdmin, s.listAudit},
		{http.MethodGet, "/v1/keys", serverAdmin, s.listKeys},
		{http.MethodPost, "/v1/keys/rotate", serverAdmin, s.rotateKey},
		{http.MethodGet, "/v1/settings", serverAdmin, s.listSettings},
		{http.MethodGet, "/v1/producers/unsafe", serverAdmin, s.listUnsafe},
		{http.MethodDelete, "/v1/producers/unsafe/:producer", serverAdmin, s.clearUnsafe},
		{http.MethodGet, "/v1/secrets", serverAdmin, s.sealing},
		{http.MethodGet, "/v1/debug/pprof/:profile", serverAdmin, s.profile},

		{http.MethodGet, "/v1/namespaces", authenticated, s.listNamespaces},
		{http.MethodPut, "/v1/namespaces/:ns", namespaceAdmin, s.putNamespace},
		{http.MethodGet, "/v1/namespaces/:ns", seesNamespace, s.getNamespace},
		{http.MethodDelete, "/v1/namespaces/:ns", namespaceAdmin, s.deleteNamespace},
		{http.MethodGet, "/v1/namespaces/:ns/event-types", seesNamespace, s.listEventTypes},
		{http.MethodGet, "/v1/namespaces/:ns/event-types/:type", seesNamespace, s.getEventType},
		{http.MethodPut, "/v1/namespaces/:ns/event-types/:type", namespaceAdmin, s.putEventType},
		{http.MethodDelete, "/v1/namespaces/:ns/event-types/:type", namespaceAdmin, s.deleteEventType},
		{http.MethodPost, "/v1/namespaces/:ns/events", onSomePath(sluice.VerbPublish), s.publish},
		{http.MethodGet, "/v1/namespaces/:ns/events", onSomePath(sluice.VerbRead), s.listEvents},
		{http.MethodGet, "/v1/namespaces/:ns/observe", onSomePath(sluice.VerbRead), s.listChanges},
		{http.MethodGet, "/v1/namespaces/:ns/events/:event", onSomePath(sluice.VerbRead), s.getEvent},
		{http.MethodGet, "/v1/namespaces/:ns/events/:event/deliveries", onSomePath(sluice.VerbRead), s.listEventDeliveries},
		{http.MethodGet, "/v1/namespaces/:ns/attempts", onSomePath(sluice.VerbSubscribe), s.listAttempts},
		{http.MethodGet, "/v1/namespaces/:ns/state", onSomePath(sluice.VerbRead), s.listState},
		{http.MethodGet, "/v1/namespaces/:ns/state/*", onSomePath(sluice.VerbRead), s.getState},
	}
	for _, r := range s.feeds.Routes() {
		all = append(all, of(r))
	}
	all = append(all, s.pageRoutes()...)
	all = append(all, s.accessRoutes()...)
	all = append(all, s.scheduleRoutes()...)
	all = append(all, s.streamRoutes()...)
	all = append(all, s.watchRoutes()...)
	all = append(all, s.mirrorRoutes()...)
	all = append(all, s.bundleRoutes()...)
	all = append(all, s.knowledgeRoutes()...)
	all = append(all, s.moduleRoutes()...)
	return append(all, s.subscriptionRoutes()...)
}

// streamRoutes returns the routes of Durable Streams. Some have another meaning with parameters of S1.
func (s *Server) streamRoutes() []route {
	var all []route
	for _, r := range s.streams.Routes() {
		one := of(r)
		switch r.Method + " " + r.Path {
		case "PUT " + dstreams.Streams: // the registry checks as for POST /v1/subscriptions
			one = apart(one, authenticated, s.putWake)
		case "GET " + dstreams.Streams:
			one = apart(one, ownedHere, s.getWakes)
		case "DELETE " + dstreams.Streams:
			one = apart(one, ownedHere, s.deleteWake)
		}
		all = append(all, one)
	}
	return all
}

func (s *Server) accessRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/grants", authenticated, s.mintGrant},
		{http.MethodGet, "/v1/grants", authenticated, s.listGrants},
		{http.MethodPost, "/v1/grants/verify", authenticated, s.verifyToken},
		{http.MethodGet, "/v1/grants/:grant", authenticated, s.getGrant},
		{http.MethodPost, "/v1/grants/:grant/renew", authenticated, s.renewGrant},
		{http.MethodPost, "/v1/grants/:grant/revoke", authenticated, s.revokeGrant},

		{http.MethodPost, linksRoute, authenticated, s.createPortalLink}, // the authority checks access
		{http.MethodPost, sessionsRoute, open, s.createPortalSession},

		{http.MethodGet, "/v1/principals", serverAdmin, s.listPrincipals},
		{http.MethodGet, "/v1/principals/:principal", serverAdmin, s.getPrincipal},
		{http.MethodPut, "/v1/principals/:principal", serverAdmin, s.putPrincipal},
		{http.MethodDelete, "/v1/principals/:principal", serverAdmin, s.deletePrincipal},

		{http.MethodGet, "/v1/namespaces/:ns/acl", namespaceAdmin, s.listACL},
		{http.MethodGet, "/v1/namespaces/:ns/acl/:principal", namespaceAdmin, s.getACL},
		{http.MethodPut, "/v1/namespaces/:ns/acl/:principal", namespaceAdmin, s.putACL},
		{http.MethodDelete, "/v1/namespaces/:ns/acl/:principal", namespaceAdmin, s.deleteACL},
		{http.MethodPost, "/v1/namespaces/:ns/tombstones", namespaceAdmin, s.erase},
		{http.MethodGet, "/v1/namespaces/:ns/tombstones", namespaceAdmin, s.listTombstones},
	}
}

func (s *Server) subscriptionRoutes() []route {
	const one = "/v1/subscriptions/:id"
	return []route{
		// The registry checks access first (S0-54, S0-55).
		{http.MethodPost, "/v1/subscriptions", authenticated, s.createSubscription},
		{http.MethodPost, "/v1/namespaces/:ns/subscriptions", authenticated, s.createSubscription},
		{http.MethodGet, "/v1/namespaces/:ns/subscriptions", authenticated, s.listSubscriptions},
		{http.MethodPost, "/v1/subscriptions/batch", authenticated, s.createSubscriptions},
		{http.MethodGet, "/v1/subscriptions", authenticated, s.listSubscriptions},
		{http.MethodGet, "/v1/health/subscriptions", authenticated, s.listHealth},
		{http.MethodGet, "/v1/overview", authenticated, s.overview},
		{http.MethodGet, "/v1/problems", authenticated, s.listProblems},
		{http.MethodGet, "/v1/problems/:problem", authenticated, s.getProblem},
		{http.MethodPatch, "/v1/problems/:problem", authenticated, s.patchProblem},
		{http.MethodPut, one, authenticated, s.putSubscription}, // same as POST
		orMirror(route{http.MethodGet, one, owned, s.getSubscription}, s.getMirror),
		orMirror(route{http.MethodPatch, one, edited, s.patchSubscription}, s.patchMirror),
		orMirror(route{http.MethodDelete, one, owned, s.deleteSubscription}, s.deleteMirror),
		{http.MethodPost, one + "/pause", owned, s.pauseSubscription},
		orMirror(route{http.MethodPost, one + "/resume", owned, s.resumeSubscription}, s.resumeMirror),
		{http.MethodPost, one + "/secret/rotate", owned, s.rotateSecret},
		{http.MethodPost, one + "/test", delivering(insteadOfTesting), s.testSubscription},
		{http.MethodPost, one + "/match", owned, s.matchSubscription},
		{http.MethodPost, one + "/probe", delivering(insteadOfRetrying), s.probeSubscription},
		{http.MethodPost, one + "/retry", delivering(insteadOfRetrying), s.retryLanes},
		{http.MethodPost, one + "/seek", delivering(insteadOfMoving), s.seekSubscription},
		{http.MethodPost, one + "/replay", delivering(insteadOfReading), s.startReplay},
		{http.MethodGet, one + "/replays", owned, s.listReplays},
		{http.MethodGet, one + "/replays/:replay", owned, s.getReplay},
		{http.MethodPost, one + "/replays/:replay/cancel", owned, s.cancelReplay},
		orMirror(route{http.MethodGet, one + "/status", owned, s.subscriptionStatus}, s.mirrorStatus),
		{http.MethodGet, one + "/statistics", owned, s.statistics},
		{http.MethodGet, one + "/consumers", woken, s.listConsumers},
		{http.MethodGet, one + "/consumers/:consumer", woken, s.getConsumer},
		{http.MethodGet, one + "/deliveries", delivering(insteadOfLooking), s.listDeliveries},
		{http.MethodGet, one + "/deliveries/:event", delivering(insteadOfLooking), s.getDelivery},
		{http.MethodPost, one + "/deliveries/:event/retry", delivering(insteadOfRetrying), s.retryDelivery},
		{http.MethodPost, one + "/deliveries/:event/discard", delivering(insteadOfLooking), s.discardDelivery},
		{http.MethodGet, one + "/events", delivering(insteadOfReading), s.subscriptionEvents},

		{http.MethodGet, one + "/dead-letters", delivering(insteadOfLooking), s.listDeadLetters},
		{http.MethodDelete, one + "/dead-letters", delivering(insteadOfLooking), s.discardDeadLetters},
		{http.MethodPost, one + "/dead-letters/redrive", delivering(insteadOfRetrying), s.redriveDeadLetters},
		{http.MethodGet, one + "/dead-letters/:event", delivering(insteadOfLooking), s.getDeadLetter},
		{http.MethodDelete, one + "/dead-letters/:event", delivering(insteadOfLooking), s.discardDeadLetter},
	}
}

// pageRoutes returns the routes of the console and the portal.
func (s *Server) pageRoutes() []route {
	return []route{
		{http.MethodGet, consolePath, open, toSlash},
		{http.MethodGet, consolePath + "/*", open, echo.WrapHandler(console.Handler(consolePath, console.Options{}))},
		{http.MethodGet, portalPath, open, toSlash},
		{http.MethodGet, portalPath + "/*", open, echo.WrapHandler(console.Handler(portalPath, console.Options{Page: "portal", Title: s.opts.PortalTitle, FrameAncestors: s.opts.FrameAncestors}))},
	}
}

// consolePath is the path of the console.
const consolePath = "/console"

// toSlash redirects to the same path with a trailing slash, with which the URLs of all pages begin.
func toSlash(c echo.Context) error {
	return c.Redirect(http.StatusPermanentRedirect, c.Path()+"/")
}

// callbackRoute is the route of callbacks, which are authenticated by the token of the notice.
const callbackRoute = "/callback/:ns/:consumer"

func isCallback(c echo.Context) bool { return c.Path() == callbackRoute }
