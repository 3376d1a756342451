package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Dsubs holds the dependencies of the handlers of stream subscriptions.
type Dsubs struct {
	Engine *streamsub.Engine
	JWKS   func(context.Context) ([]byte, error) // the keys that sign notices, as a JWK set
	KeyID  func() string                         // ID of the current signing key
}

const (
	controlBase = streamsBase + ":ns/" + streamsub.ControlSegment
	oneDsub     = controlBase + "/subscriptions/:id"

	rootKey  = "root" // context key of the path below which its streams are
	keptDsub = "wake" // context key of the request's subscription

	maxControlBody = 1 << 20
)

func (s *Server) dsubRoutes() []route {
	return []route{
		{http.MethodGet, controlBase + "/jwks.json", open, s.dsubJWKS},
		// The object is in the body.
		{http.MethodPut, oneDsub, somewhere(sluice.VerbSubscribe), s.putDsub},
		{http.MethodGet, oneDsub, dsubOwned, s.getDsub},
		{http.MethodDelete, oneDsub, dsubOwned, s.deleteDsub},
		{http.MethodPost, oneDsub + "/streams", dsubOwned, s.linkDsub}, // same as PUT
		{http.MethodDelete, oneDsub + "/streams/*", dsubOwned, s.unlinkDsub},
		{http.MethodPost, oneDsub + "/claim", dsubOwned, s.claimDsub},
		{http.MethodPost, oneDsub + "/callback", working, s.callDsub(streamsub.Call{Kind: streamsub.Webhook})},
		{http.MethodPost, oneDsub + "/ack", working, s.callDsub(streamsub.Call{Kind: streamsub.PullWake})},
		{http.MethodPost, oneDsub + "/release", working, s.callDsub(streamsub.Call{Kind: streamsub.PullWake, Release: true})},
	}
}

// isControl reports whether a route is one of the protocol's control requests.
func isControl(route string) bool { return strings.HasPrefix(route, controlBase+"/") }

// isForTokenless reports whether a control request needs no API token: workers send the token of a
// wake, and the keys are public.
func isForTokenless(route string) bool {
	return isControl(route) && slices.Contains([]string{controlBase + "/jwks.json", oneDsub + "/callback", oneDsub + "/ack", oneDsub + "/release"}, route)
}

// rooted removes the part of a control request's path before the control segment, and stores it:
// streams are named relative to it.
func rooted(c echo.Context) error {
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

// dsubKey returns the key of the request's subscription.
func dsubKey(c echo.Context) (streamsub.Key, error) {
	id, err := paramOf(c, "id")
	root, _ := c.Get(rootKey).(string) // none: the streams of the whole namespace
	return streamsub.Key{Namespace: c.Param("ns"), Root: root, ID: id}, err
}

// dsubOwned requires that the subscription is the caller's, or one of a namespace that it
// administers. Other subscriptions look missing (C14).
func dsubOwned(s *Server, c echo.Context) error {
	k, err := dsubKey(c)
	if err != nil {
		return err
	}
	wake, err := s.opts.Dsubs.Engine.Get(c.Request().Context(), k)
	if err != nil {
		return err
	}
	if err := s.ownsDsub(c, &wake); err != nil {
		return err
	}
	c.Set(keptDsub, &wake)
	return nil
}

func (s *Server) ownsDsub(c echo.Context, wake *streamsub.Subscription) error {
	admin := s.require(c, sluice.VerbAdmin, authz.Target{Namespace: wake.Namespace})
	switch {
	case admin == nil || sluice.CodeOf(admin) == sluice.Unavailable:
		return admin
	case !s.madeDsub(c, wake):
		return streamsub.Missing()
	}
	wishes := wake.Wishes()
	if len(wishes) == 0 { // all its streams were unlinked
		return s.opts.Access.Some(caller(c), sluice.VerbSubscribe, wake.Namespace, time.Now())
	}
	for _, wish := range wishes {
		if err := s.require(c, sluice.VerbSubscribe, authz.Target{Namespace: wish.Namespace, Pattern: wish.Pattern}); err != nil {
			return err
		}
	}
	return nil
}

// madeDsub reports whether the caller, under a grant, created the subscription.
func (s *Server) madeDsub(c echo.Context, wake *streamsub.Subscription) bool {
	who := caller(c)
	return wake.Principal == who.Principal && s.opts.Access.Same(who, wake.Grant, sluice.Object{Namespace: wake.Namespace}, time.Now())
}

// working requires a token of a wake of the subscription.
func working(s *Server, c echo.Context) error {
	k, err := dsubKey(c)
	if err != nil {
		return err
	}
	return s.opts.Dsubs.Engine.Authentic(k, bearer(c.Request().Header))
}

func (s *Server) dsubJWKS(c echo.Context) error {
	set, err := s.opts.Dsubs.JWKS(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=300")
	return c.Blob(http.StatusOK, "application/jwk-set+json", set)
}

// dsubRequest is the requested configuration of a subscription.
type dsubRequest struct {
	Type    streamsub.Kind `json:"type"`
	Pattern string         `json:"pattern"`
	Streams listed         `json:"streams"`
	Webhook *struct {
		URL       string `json:"url"`
		Handshake bool   `json:"handshake"`
	} `json:"webhook"`
	WakeStream  string `json:"wake_stream"`
	LeaseTTL    *int64 `json:"lease_ttl_ms"`
	Description string `json:"description"`
}

// listed is an array of streams, and acknowledged one of acknowledgements. An array that is too
// long is refused before its elements cost memory.
type (
	listed       []string
	acknowledged []ackRequest
)

// UnmarshalJSON reads the array. Errors are those of jsonarray.Decode.
func (l *listed) UnmarshalJSON(data []byte) (err error) {
	*l, err = jsonarray.Decode[string](data, streamsub.MaxNamed)
	return err
}

// UnmarshalJSON reads the array. Errors are those of jsonarray.Decode.
func (a *acknowledged) UnmarshalJSON(data []byte) (err error) {
	*a, err = jsonarray.Decode[ackRequest](data, streamsub.MaxAcks)
	return err
}

// controlBody parses the body of a control request. Unknown members are ignored, because the
// protocol may grow.
func controlBody(c echo.Context, target any) error {
	data, err := jsonBody(c)
	if err != nil {
		return err
	}
	if len(data) > maxControlBody {
		return &http.MaxBytesError{Limit: maxControlBody}
	}
	if len(data) == 0 {
		return nil
	}
	err = json.Unmarshal(data, target)
	if errors.Is(err, jsonarray.ErrTooMany) {
		return sluice.Errorf(sluice.InvalidRequest, "send at most %d streams (use a pattern for more) and %d acks in one request", streamsub.MaxNamed, streamsub.MaxAcks)
	}
	if err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "the body does not have the expected JSON structure")
	}
	return nil
}

func (r *dsubRequest) config() streamsub.Config {
	c := streamsub.Config{
		Kind: r.Type, Pattern: r.Pattern, Streams: r.Streams, WakeStream: r.WakeStream, Lease: streamsub.DefaultLease, Description: r.Description,
	}
	if r.Webhook != nil {
		c.URL, c.Handshake = r.Webhook.URL, r.Webhook.Handshake
	}
	if r.LeaseTTL != nil {
		c.Lease = time.Duration(min(max(*r.LeaseTTL, 0), 1<<30)) * time.Millisecond
	}
	return c
}

func (s *Server) putDsub(c echo.Context) error {
	k, err := dsubKey(c)
	if err != nil {
		return err
	}
	var req dsubRequest
	if err := controlBody(c, &req); err != nil {
		return err
	}
	config, err := req.config().Normal(k)
	if err != nil {
		return err
	}
	if err := s.mayDsub(c, k, config); err != nil {
		return err
	}
	wake, created, err := s.opts.Dsubs.Engine.Create(c.Request().Context(), k, config, caller(c), func(there *streamsub.Subscription) bool {
		return s.ownsDsub(c, there) == nil
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.showDsub(c, status, &wake)
}

// mayDsub requires the verb subscribe for all requested streams, and publish for the wake stream.
func (s *Server) mayDsub(c echo.Context, k streamsub.Key, config streamsub.Config) error {
	if config.Pattern != "" {
		t := authz.Target{Namespace: k.Namespace, Pattern: sluice.Pattern(k.Path(config.Pattern))}
		if err := s.require(c, sluice.VerbSubscribe, t); err != nil {
			return err
		}
	}
	if config.WakeStream != "" {
		if err := s.requireStream(c, sluice.VerbPublish, k.Path(config.WakeStream)); err != nil {
			return err
		}
	}
	return s.mayLink(c, k, config.Streams)
}

func (s *Server) mayLink(c echo.Context, k streamsub.Key, paths []string) error {
	for _, path := range paths {
		if err := s.requireStream(c, sluice.VerbSubscribe, k.Path(path)); err != nil {
			return err
		}
	}
	return nil
}

// wake returns the request's subscription.
func wake(c echo.Context) *streamsub.Subscription {
	found, _ := c.Get(keptDsub).(*streamsub.Subscription) // set by dsubOwned
	return found
}

func (s *Server) getDsub(c echo.Context) error { return s.showDsub(c, http.StatusOK, wake(c)) }

func (s *Server) deleteDsub(c echo.Context) error {
	if err := s.opts.Dsubs.Engine.Delete(c.Request().Context(), wake(c).Key, caller(c).Principal); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) linkDsub(c echo.Context) error {
	var req struct {
		Streams listed `json:"streams"`
	}
	if err := controlBody(c, &req); err != nil {
		return err
	}
	k := wake(c).Key
	paths, err := k.Normal(req.Streams)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		return sluice.Errorf(sluice.InvalidRequest, "streams must be an array of paths")
	}
	if err := s.mayLink(c, k, paths); err != nil {
		return err
	}
	if err := s.opts.Dsubs.Engine.Link(c.Request().Context(), k, paths); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) unlinkDsub(c echo.Context) error {
	path, err := paramOf(c, "*")
	if err != nil {
		return err
	}
	if err := s.opts.Dsubs.Engine.Unlink(c.Request().Context(), wake(c).Key, path); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// claimAnswer is the response to a successful claim.
type claimAnswer struct {
	Wake       string           `json:"wake_id"`
	Generation uint64           `json:"generation"`
	Token      string           `json:"token"`
	Streams    []streamsub.Told `json:"streams"`
	LeaseTTL   int64            `json:"lease_ttl_ms"`
}

func (s *Server) claimDsub(c echo.Context) error {
	var req struct {
		Worker string `json:"worker"`
	}
	if err := controlBody(c, &req); err != nil {
		return err
	}
	claim, err := s.opts.Dsubs.Engine.Claim(c.Request().Context(), wake(c).Key, req.Worker)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, claimAnswer{claim.Wake, claim.Generation, claim.Token, claim.Streams, claim.Lease.Milliseconds()})
}

// callRequest is a worker's progress report.
type callRequest struct {
	Wake       string       `json:"wake_id"`
	Generation uint64       `json:"generation"`
	Acks       acknowledged `json:"acks"`
	Done       bool         `json:"done"`
}

type ackRequest struct {
	Stream string `json:"stream"`
	Path   string `json:"path"` // alias of stream, as used in notices
	Offset string `json:"offset"`
}

func (r *callRequest) acks() (all []streamsub.Ack, err error) {
	for _, a := range r.Acks {
		offset, err := durable.ParseOffset(a.Offset)
		if err != nil {
			return nil, &streamsub.Refusal{Code: streamsub.InvalidOffset, Message: "acks: use offsets issued by this server"}
		}
		all = append(all, streamsub.Ack{Path: cmp.Or(a.Stream, a.Path), Offset: offset})
	}
	return all, nil
}

type callAnswer struct {
	OK       bool `json:"ok"`
	NextWake bool `json:"next_wake"`
}

func (s *Server) callDsub(call streamsub.Call) echo.HandlerFunc {
	return func(c echo.Context) error {
		k, err := dsubKey(c)
		if err != nil {
			return err
		}
		var req callRequest
		if err := controlBody(c, &req); err != nil {
			return err
		}
		said := call
		said.Token, said.Wake, said.Generation, said.Done = bearer(c.Request().Header), req.Wake, req.Generation, req.Done
		if said.Acks, err = req.acks(); err != nil {
			return err
		}
		woken, err := s.opts.Dsubs.Engine.Call(c.Request().Context(), k, said)
		if err != nil {
			return err
		}
		if said.Release {
			return c.NoContent(http.StatusNoContent)
		}
		return c.JSON(http.StatusOK, callAnswer{OK: true, NextWake: woken})
	}
}
