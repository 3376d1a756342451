package dstreams

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// streamsBase is the path prefix of streams; everything after the namespace's name is a path.
const streamsBase = "/streams/"

// Routes of streams and of subscriptions.
const (
	Streams      = streamsBase + ":ns/*"
	Subscription = controlBase + "/subscriptions/:id"
)

const (
	controlBase = streamsBase + ":ns/" + streamsub.ControlSegment

	rootKey       = "root" // context key of the path below which a subscription's streams are
	keptStreamSub = "wake" // context key of the request's subscription

	maxControlBody = 1 << 20
)

// Routes returns the routes of the protocol. PUT, GET and DELETE of Streams mean something else
// with the parameters of S1, which the caller of Routes handles.
func (s *Handler) Routes() []httpkit.Route {
	return append([]httpkit.Route{
		httpkit.On(http.MethodOptions, Streams, httpkit.Open, s.streamOptions),
		// A fork also requires reading its source.
		httpkit.On(http.MethodPut, Streams, s.streaming(sluice.VerbPublish), s.putStream),
		httpkit.On(http.MethodPost, Streams, s.streaming(sluice.VerbPublish), s.postStream),
		httpkit.On(http.MethodGet, Streams, s.streaming(sluice.VerbRead), s.getStream),
		httpkit.On(http.MethodHead, Streams, s.streaming(sluice.VerbRead), s.headStream),
		httpkit.On(http.MethodDelete, Streams, s.streaming(sluice.VerbPublish), s.deleteStream),
	}, s.controlRoutes()...)
}

func (s *Handler) controlRoutes() []httpkit.Route {
	return []httpkit.Route{
		httpkit.On(http.MethodGet, controlBase+"/jwks.json", httpkit.Open, s.streamSubJWKS),
		// The object is in the body.
		httpkit.On(http.MethodPut, Subscription, s.somewhere, s.putStreamSub),
		httpkit.On(http.MethodGet, Subscription, s.streamSubOwned, s.getStreamSub),
		httpkit.On(http.MethodDelete, Subscription, s.streamSubOwned, s.deleteStreamSub),
		httpkit.On(http.MethodPost, Subscription+"/streams", s.streamSubOwned, s.linkStreamSub), // same requirement as for PUT
		httpkit.On(http.MethodDelete, Subscription+"/streams/*", s.streamSubOwned, s.unlinkStreamSub),
		httpkit.On(http.MethodPost, Subscription+"/claim", s.streamSubOwned, s.claimStreamSub),
		httpkit.On(http.MethodPost, Subscription+"/callback", s.working, s.callStreamSub(streamsub.Call{Kind: streamsub.Webhook})),
		httpkit.On(http.MethodPost, Subscription+"/ack", s.working, s.callStreamSub(streamsub.Call{Kind: streamsub.PullWake})),
		httpkit.On(http.MethodPost, Subscription+"/release", s.working, s.callStreamSub(streamsub.Call{Kind: streamsub.PullWake, Release: true})),
	}
}

// isControl reports whether a route is one of the protocol's control requests.
func isControl(route string) bool { return strings.HasPrefix(route, controlBase+"/") }

// Tokenless reports whether a control request needs no API token: workers send the token of a
// wake, and the keys are public.
func Tokenless(route string) bool {
	return isControl(route) && slices.Contains([]string{controlBase + "/jwks.json", Subscription + "/callback", Subscription + "/ack", Subscription + "/release"}, route)
}

// Rooted removes the part of a control request's path between the namespace and the control
// segment. It stores that part in the context, because the request names streams relative to it.
func Rooted(c echo.Context) error {
	u := c.Request().URL
	rest, isStream := strings.CutPrefix(u.EscapedPath(), streamsBase)
	ns, rest, _ := strings.Cut(rest, "/")
	root, control, isControl := strings.Cut("/"+rest, "/"+streamsub.ControlSegment+"/")
	if !isStream || !isControl || root == "" {
		return nil
	}
	plain, err := url.PathUnescape(root)
	if err == nil {
		_, err = sluice.ParsePath(plain)
	}
	if err != nil {
		return nil //nolint:nilerr // the handler of the path reports the error
	}
	escaped := streamsBase + ns + "/" + streamsub.ControlSegment + "/" + control
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	if u.Path = path; u.RawPath != "" {
		u.RawPath = escaped
	}
	c.Set(rootKey, plain)
	return nil
}

// rootBase is the alternative path prefix of one namespace's streams, for clients of the protocol
// that can be configured only with an origin.
const rootBase = "/v1/stream/"

const keptAtRoot = "at root" // context key for requests below rootBase

// AtRoot rewrites a request below rootBase to the path below the namespace.
func (s *Handler) AtRoot(c echo.Context) error {
	u := c.Request().URL
	if s.opts.AtRoot == "" || !strings.HasPrefix(u.Path, rootBase) {
		return nil
	}
	base := streamsBase + s.opts.AtRoot + "/"
	if u.RawPath != "" {
		rest, ok := strings.CutPrefix(u.RawPath, rootBase)
		if !ok {
			return nil // the prefix itself is percent-encoded: no resource
		}
		u.RawPath = base + rest
	}
	u.Path = base + strings.TrimPrefix(u.Path, rootBase)
	c.Set(keptAtRoot, true)
	return nil
}

func cameByRoot(c echo.Context) bool { return c.Get(keptAtRoot) != nil }

// IsStream reports whether a path is that of a stream or a control request.
func IsStream(path string) bool { return strings.HasPrefix(path, streamsBase) }

// streaming requires a verb for the path of the stream. It refuses to write to reserved paths.
func (s *Handler) streaming(v sluice.Verb) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := streamKey(c)
		if err != nil {
			return err
		}
		if streamsub.Reserved(string(key.Path)) {
			return sluice.Errorf(sluice.NotFound, "no resource at this URL: paths with the segment %s are not streams; see /openapi.yaml", streamsub.ControlSegment)
		}
		if v != sluice.VerbRead {
			if err := key.Path.CheckReserved(); err != nil {
				return err
			}
		}
		return s.requireStream(c, v, key.Path)
	}
}

func (s *Handler) requireStream(c echo.Context, v sluice.Verb, path sluice.Path) error {
	return s.needs.Rights.Require(c, v, authz.Target{Namespace: c.Param("ns"), Path: path})
}

// Anonymous reports whether a request without a token is allowed, because the operator has opened
// the streams of its namespace.
func (s *Handler) Anonymous(c echo.Context) bool {
	return IsStream(c.Path()) && c.Request().Header.Get(echo.HeaderAuthorization) == "" &&
		s.needs.Rights.Index != nil && slices.Contains(s.opts.Anonymous, c.Param("ns"))
}

// somewhere requires the verb subscribe on some path of the namespace in the URL.
func (s *Handler) somewhere(c echo.Context) error {
	return s.needs.Rights.Some(c, sluice.VerbSubscribe, c.Param("ns"))
}
