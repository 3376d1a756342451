package httpapi

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/access"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/enrichment"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/modules"
	"github.com/sluice-io/sluice/internal/httpapi/watches"
	"github.com/sluice-io/sluice/pkg/console"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// guard returns a handler that checks the query and the requirement of a route before it calls the
// route's handler, and the requirement again when the body has arrived.
func (s *Server) guard(r httpkit.Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := r.CheckQuery(c); err != nil {
			return err
		}
		if err := cmp.Or(r.Demand(c), s.hasRoom(r)); err != nil {
			return err
		}
		httpkit.Recheck(c, func() error { return cmp.Or(s.authenticate(c), r.Demand(c)) })
		return s.once(c, r.Handle)
	}
}

// hasRoom returns an error if a request of the route adds to a store that may not grow.
func (s *Server) hasRoom(r httpkit.Route) error {
	if s.opts.Room == nil || !grows(r) {
		return nil
	}
	return s.opts.Room.Grow()
}

// grows reports whether requests of a route add to the store. All others free space, revoke
// permissions, change existing data or write nothing, so they are attempted even if the store is
// full. Events are refused at a lower level of the store than the rest, by their log. A new route
// that adds to the store must be added here; a route that is missing here is attempted on a full
// store.
func grows(r httpkit.Route) bool {
	switch r.Method + " " + r.Path {
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
		"POST " + access.LinksRoute,
		"POST " + access.SessionsRoute,
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
func (s *Server) routes() []httpkit.Route {
	all := []httpkit.Route{
		httpkit.On(http.MethodGet, "/livez", httpkit.Open, s.healthz),
		httpkit.On(http.MethodHead, "/livez", httpkit.Open, s.healthz),
		httpkit.On(http.MethodGet, "/healthz", httpkit.Open, s.healthz),
		httpkit.On(http.MethodHead, "/healthz", httpkit.Open, s.healthz),
		httpkit.On(http.MethodGet, "/readyz", httpkit.Open, s.readyz),
		httpkit.On(http.MethodHead, "/readyz", httpkit.Open, s.readyz),
		httpkit.On(http.MethodGet, "/metrics", s.metricsReader, echo.WrapHandler(s.opts.Metrics)),
		httpkit.On(http.MethodGet, "/", httpkit.Open, s.describe),
		httpkit.On(http.MethodGet, "/docs", httpkit.Open, s.docs),
		httpkit.On(http.MethodGet, stylePath, httpkit.Open, s.docsStyle),
		httpkit.On(http.MethodGet, "/openapi.yaml", httpkit.Open, s.openapi),
		httpkit.On(http.MethodGet, "/openapi.json", httpkit.Open, s.openapiJSON),
		httpkit.On(http.MethodPost, callbackRoute, httpkit.Open, s.callback),

		httpkit.On(http.MethodGet, "/v1/capabilities", httpkit.Authenticated, s.capabilities, "namespace"),

		httpkit.OnPages("/v1/namespaces", httpkit.Authenticated, s.listNamespaces),
		httpkit.On(http.MethodPut, "/v1/namespaces/:ns", s.rights.NamespaceAdmin, s.putNamespace),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns", s.rights.SeesNamespace, s.getNamespace),
		httpkit.On(http.MethodDelete, "/v1/namespaces/:ns", s.rights.NamespaceAdmin, s.deleteNamespace),
		httpkit.OnPages("/v1/namespaces/:ns/event-types", s.rights.SeesNamespace, s.listEventTypes),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/event-types/:type", s.rights.SeesNamespace, s.getEventType),
		httpkit.On(http.MethodPut, "/v1/namespaces/:ns/event-types/:type", s.rights.NamespaceAdmin, s.putEventType),
		httpkit.On(http.MethodDelete, "/v1/namespaces/:ns/event-types/:type", s.rights.NamespaceAdmin, s.deleteEventType),
		httpkit.On(http.MethodPost, "/v1/namespaces/:ns/events", s.rights.OnSomePath(sluice.VerbPublish), s.publish),
		httpkit.OnPages("/v1/namespaces/:ns/events", s.rights.OnSomePath(sluice.VerbRead), s.listEvents, "pattern", "types", "since", "until"),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/events/:event", s.rights.OnSomePath(sluice.VerbRead), s.getEvent),
		httpkit.OnPages("/v1/namespaces/:ns/events/:event/deliveries", s.rights.OnSomePath(sluice.VerbRead), s.listEventDeliveries),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/attempts", s.rights.OnSomePath(sluice.VerbSubscribe), s.listAttempts, "after", "wait", "limit", "subscription"),
		httpkit.On(http.MethodPost, "/v1/namespaces/:ns/tombstones", s.rights.NamespaceAdmin, s.erase),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/tombstones", s.rights.NamespaceAdmin, s.listTombstones),
		httpkit.OnPages("/v1/namespaces/:ns/state", s.rights.OnSomePath(sluice.VerbRead), s.listState, append(httpkit.FilterParams(), "pattern", "at_seq")...),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/state/*", s.rights.OnSomePath(sluice.VerbRead), s.getState, "at_seq"),
	}
	all = append(all, s.admin.Routes()...)
	all = append(all, s.feeds.Routes()...)
	all = append(all, s.pageRoutes()...)
	all = append(all, s.access.Routes()...)
	all = append(all, s.schedules.Routes()...)
	all = append(all, s.streamRoutes()...)
	all = append(all, watches.New(watches.Deps{Watches: s.opts.Watches, Rights: s.rights, Namespace: s.namespace, EnterTrial: s.enterTrial}).Routes()...)
	all = append(all, s.mirrors.Routes()...)
	all = append(all, enrichment.New(enrichment.Deps{Knowledge: s.opts.Knowledge, Rights: s.rights, Namespace: s.namespace, UntilEnd: s.untilEnd, Stopping: s.stopping}).Routes()...)
	all = append(all, modules.Routes(s.opts.Modules, s.rights)...)
	return append(all, s.subscriptionRoutes()...)
}

// streamRoutes returns the routes of Durable Streams. Some have another meaning with parameters of S1.
func (s *Server) streamRoutes() []httpkit.Route {
	var all []httpkit.Route
	for _, r := range s.streams.Routes() {
		one := r
		switch r.Method + " " + r.Path {
		case "PUT " + dstreams.Streams: // the registry checks as for POST /v1/subscriptions
			one = apart(one, httpkit.Authenticated, s.putWake)
		case "GET " + dstreams.Streams:
			one = apart(one, s.ownedHere, s.getWakes)
		case "DELETE " + dstreams.Streams:
			one = apart(one, s.ownedHere, s.deleteWake)
		}
		all = append(all, one)
	}
	return all
}

// subscriptionRoutes returns the routes of subscriptions. Those in mirrors.Or also serve mirrors.
func (s *Server) subscriptionRoutes() []httpkit.Route {
	const one = "/v1/subscriptions/:id"
	return []httpkit.Route{
		// The registry checks access first (S0-54, S0-55).
		httpkit.On(http.MethodPost, "/v1/subscriptions", httpkit.Authenticated, s.createSubscription),
		httpkit.On(http.MethodPost, "/v1/namespaces/:ns/subscriptions", httpkit.Authenticated, s.createSubscription),
		httpkit.OnPages("/v1/namespaces/:ns/subscriptions", httpkit.Authenticated, s.listSubscriptions, "mode", "state", "order", "source"),
		httpkit.On(http.MethodPost, "/v1/subscriptions/batch", httpkit.Authenticated, s.createSubscriptions, "dry_run"),
		httpkit.OnPages("/v1/subscriptions", httpkit.Authenticated, s.listSubscriptions, "namespace", "mode", "state", "order", "source"),
		httpkit.OnPages("/v1/health/subscriptions", httpkit.Authenticated, s.listHealth, "namespace", "health", "sparkline"),
		httpkit.On(http.MethodGet, "/v1/overview", httpkit.Authenticated, s.overview, "namespace"),
		httpkit.OnPages("/v1/problems", httpkit.Authenticated, s.listProblems, "namespace", "subscription", "state"),
		httpkit.On(http.MethodGet, "/v1/problems/:problem", httpkit.Authenticated, s.getProblem),
		httpkit.On(http.MethodPatch, "/v1/problems/:problem", httpkit.Authenticated, s.patchProblem),
		httpkit.On(http.MethodPut, one, httpkit.Authenticated, s.putSubscription), // same as POST
		s.mirrors.Or(httpkit.On(http.MethodGet, one, s.owned, s.getSubscription)),
		s.mirrors.Or(httpkit.On(http.MethodPatch, one, s.edited, s.patchSubscription)),
		s.mirrors.Or(httpkit.On(http.MethodDelete, one, s.owned, s.deleteSubscription)),
		httpkit.On(http.MethodPost, one+"/pause", s.owned, s.pauseSubscription),
		s.mirrors.Or(httpkit.On(http.MethodPost, one+"/resume", s.owned, s.resumeSubscription)),
		httpkit.On(http.MethodPost, one+"/secret/rotate", s.owned, s.rotateSecret),
		httpkit.On(http.MethodPost, one+"/test", s.delivering(insteadOfTesting), s.testSubscription),
		httpkit.On(http.MethodPost, one+"/match", s.owned, s.matchSubscription),
		httpkit.On(http.MethodPost, one+"/probe", s.delivering(insteadOfRetrying), s.probeSubscription),
		httpkit.On(http.MethodPost, one+"/retry", s.delivering(insteadOfRetrying), s.retryLanes),
		httpkit.On(http.MethodPost, one+"/seek", s.delivering(insteadOfMoving), s.seekSubscription),
		httpkit.On(http.MethodPost, one+"/replay", s.delivering(insteadOfReading), s.startReplay),
		httpkit.On(http.MethodGet, one+"/replays", s.owned, s.listReplays),
		httpkit.On(http.MethodGet, one+"/replays/:replay", s.owned, s.getReplay),
		httpkit.On(http.MethodPost, one+"/replays/:replay/cancel", s.owned, s.cancelReplay),
		s.mirrors.Or(httpkit.On(http.MethodGet, one+"/status", s.owned, s.subscriptionStatus)),
		httpkit.On(http.MethodGet, one+"/statistics", s.owned, s.statistics, "since", "step"),
		httpkit.OnPages(one+"/consumers", s.woken, s.listConsumers, "state"),
		httpkit.On(http.MethodGet, one+"/consumers/:consumer", s.woken, s.getConsumer),
		httpkit.OnPages(one+"/deliveries", s.delivering(insteadOfLooking), s.listDeliveries, "state", "since", "until", "path", "event_type"),
		httpkit.On(http.MethodGet, one+"/deliveries/:event", s.delivering(insteadOfLooking), s.getDelivery),
		httpkit.On(http.MethodPost, one+"/deliveries/:event/retry", s.delivering(insteadOfRetrying), s.retryDelivery),
		httpkit.On(http.MethodPost, one+"/deliveries/:event/discard", s.delivering(insteadOfLooking), s.discardDelivery),
		httpkit.On(http.MethodGet, one+"/events", s.delivering(insteadOfReading), s.subscriptionEvents, "after", "types", "limit", "wait", "envelope"),

		httpkit.OnPages(one+"/dead-letters", s.delivering(insteadOfLooking), s.listDeadLetters, "reason", "path", "since"),
		httpkit.On(http.MethodDelete, one+"/dead-letters", s.delivering(insteadOfLooking), s.discardDeadLetters, "all"),
		httpkit.On(http.MethodPost, one+"/dead-letters/redrive", s.delivering(insteadOfRetrying), s.redriveDeadLetters),
		httpkit.On(http.MethodGet, one+"/dead-letters/:event", s.delivering(insteadOfLooking), s.getDeadLetter),
		httpkit.On(http.MethodDelete, one+"/dead-letters/:event", s.delivering(insteadOfLooking), s.discardDeadLetter),
	}
}

// pageRoutes returns the routes of the console and the portal.
func (s *Server) pageRoutes() []httpkit.Route {
	return []httpkit.Route{
		httpkit.On(http.MethodGet, consolePath, httpkit.Open, toSlash),
		httpkit.On(http.MethodGet, consolePath+"/*", httpkit.Open, echo.WrapHandler(console.Handler(consolePath, console.Options{}))),
		httpkit.On(http.MethodGet, access.PortalPath, httpkit.Open, toSlash),
		httpkit.On(http.MethodGet, access.PortalPath+"/*", httpkit.Open, echo.WrapHandler(console.Handler(access.PortalPath, console.Options{Page: "portal", Title: s.opts.PortalTitle, FrameAncestors: s.opts.FrameAncestors}))),
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

// opensSession reports whether a request exchanges the code of a link, its only credential.
func opensSession(c echo.Context) bool { return c.Path() == access.SessionsRoute }
