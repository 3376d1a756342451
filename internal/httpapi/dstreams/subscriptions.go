package dstreams

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// streamSubKey returns the key of the request's subscription.
func streamSubKey(c echo.Context) (streamsub.Key, error) {
	id, err := httpkit.Param(c, "id")
	root, _ := c.Get(rootKey).(string) // none: the streams of the whole namespace
	return streamsub.Key{Namespace: c.Param("ns"), Root: root, ID: id}, err
}

// streamSubOwned requires that the subscription is the caller's, or one of a namespace that it
// administers. Other subscriptions look missing (C14).
func (s *Handler) streamSubOwned(c echo.Context) error {
	k, err := streamSubKey(c)
	if err != nil {
		return err
	}
	wake, err := s.opts.Subscriptions.Get(c.Request().Context(), k)
	if err != nil {
		return err
	}
	if err := s.ownsStreamSub(c, &wake); err != nil {
		return err
	}
	c.Set(keptStreamSub, &wake)
	return nil
}

// ownsStreamSub returns nil for an admin of the namespace, and for the creator as long as it may
// subscribe to all streams of the subscription.
func (s *Handler) ownsStreamSub(c echo.Context, wake *streamsub.Subscription) error {
	admin := s.needs.Rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: wake.Namespace})
	switch {
	case admin == nil || sluice.CodeOf(admin) == sluice.Unavailable:
		return admin
	case !s.madeStreamSub(c, wake):
		return streamsub.Missing()
	}
	wishes := wake.Wishes()
	if len(wishes) == 0 { // all its streams were unlinked
		return s.needs.Rights.Some(c, sluice.VerbSubscribe, wake.Namespace)
	}
	for _, wish := range wishes {
		if err := s.needs.Rights.Require(c, sluice.VerbSubscribe, authz.Target{Namespace: wish.Namespace, Pattern: wish.Pattern}); err != nil {
			return err
		}
	}
	return nil
}

// madeStreamSub reports whether the caller, under a grant, created the subscription.
func (s *Handler) madeStreamSub(c echo.Context, wake *streamsub.Subscription) bool {
	who := httpkit.Caller(c)
	return wake.Principal == who.Principal && s.needs.Rights.Same(c, wake.Grant, wake.Namespace)
}

// working requires a token of one of the subscription's wakes. The API's token is not needed. Codes
// TOKEN_INVALID; TOKEN_EXPIRED.
func (s *Handler) working(c echo.Context) error {
	k, err := streamSubKey(c)
	if err != nil {
		return err
	}
	return s.opts.Subscriptions.Authentic(k, httpkit.Bearer(c.Request().Header))
}

// streamSubJWKS answers GET …/__ds/jwks.json without a token: the keys that sign notices.
func (s *Handler) streamSubJWKS(c echo.Context) error {
	set, err := s.opts.JWKS(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=300")
	return c.Blob(http.StatusOK, "application/jwk-set+json", set)
}

// streamSubRequest is the requested configuration of a subscription.
type streamSubRequest struct {
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

// listed is an array of streams, and acknowledged is an array of acknowledgements. An array that is
// too long is refused before its elements are decoded.
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
// protocol may grow. An empty body leaves target as it is. Codes InvalidRequest; TooLarge above
// maxControlBody.
func controlBody(c echo.Context, target any) error {
	data, err := httpkit.JSONBody(c)
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

// config returns the configuration. A lease out of bounds stays out of bounds, and Normal refuses
// it; the clamp only prevents an overflow.
func (r *streamSubRequest) config() streamsub.Config {
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

// putStreamSub answers PUT …/__ds/subscriptions/{id}: 201 for a new subscription, 200 for an equal
// one that the caller manages. Codes INVALID_REQUEST; WEBHOOK_URL_REJECTED;
// SUBSCRIPTION_ALREADY_EXISTS for a different one, and for one that the caller does not manage;
// NotFound for the namespace; QuotaExceeded.
func (s *Handler) putStreamSub(c echo.Context) error {
	k, err := streamSubKey(c)
	if err != nil {
		return err
	}
	var req streamSubRequest
	if err := controlBody(c, &req); err != nil {
		return err
	}
	config, err := req.config().Normal(k)
	if err != nil {
		return err
	}
	if err := s.mayStreamSub(c, k, config); err != nil {
		return err
	}
	wake, created, err := s.opts.Subscriptions.Create(c.Request().Context(), k, config, httpkit.Caller(c), func(there *streamsub.Subscription) bool {
		return s.ownsStreamSub(c, there) == nil
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.showStreamSub(c, status, &wake)
}

// mayStreamSub requires the verb subscribe for all requested streams, and publish for the wake stream.
func (s *Handler) mayStreamSub(c echo.Context, k streamsub.Key, config streamsub.Config) error {
	if config.Pattern != "" {
		t := authz.Target{Namespace: k.Namespace, Pattern: sluice.Pattern(k.Path(config.Pattern))}
		if err := s.needs.Rights.Require(c, sluice.VerbSubscribe, t); err != nil {
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

// mayLink requires the verb subscribe for each path, and returns the error of the first without it.
func (s *Handler) mayLink(c echo.Context, k streamsub.Key, paths []string) error {
	for _, path := range paths {
		if err := s.requireStream(c, sluice.VerbSubscribe, k.Path(path)); err != nil {
			return err
		}
	}
	return nil
}

// wake returns the request's subscription.
func wake(c echo.Context) *streamsub.Subscription {
	found, _ := c.Get(keptStreamSub).(*streamsub.Subscription) // set by streamSubOwned
	return found
}

// getStreamSub answers GET …/subscriptions/{id}. The number of listed streams without new messages
// is bounded.
func (s *Handler) getStreamSub(c echo.Context) error {
	return s.showStreamSub(c, http.StatusOK, wake(c))
}

// deleteStreamSub answers DELETE …/subscriptions/{id} with 204.
func (s *Handler) deleteStreamSub(c echo.Context) error {
	if err := s.opts.Subscriptions.Delete(c.Request().Context(), wake(c).Key, httpkit.Caller(c).Principal); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// linkStreamSub answers POST …/subscriptions/{id}/streams with 204. It is idempotent.
func (s *Handler) linkStreamSub(c echo.Context) error {
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
	if err := s.opts.Subscriptions.Link(c.Request().Context(), k, paths); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// unlinkStreamSub answers DELETE …/subscriptions/{id}/streams/{path} with 204, also for a path that
// is not linked.
func (s *Handler) unlinkStreamSub(c echo.Context) error {
	path, err := httpkit.Param(c, "*")
	if err != nil {
		return err
	}
	if err := s.opts.Subscriptions.Unlink(c.Request().Context(), wake(c).Key, path); err != nil {
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

// claimStreamSub answers POST …/subscriptions/{id}/claim of a pull-wake subscription with the wake,
// its token and its lease. Codes INVALID_REQUEST; ALREADY_CLAIMED, with the holder;
// NO_PENDING_WORK.
func (s *Handler) claimStreamSub(c echo.Context) error {
	var req struct {
		Worker string `json:"worker"`
	}
	if err := controlBody(c, &req); err != nil {
		return err
	}
	claim, err := s.opts.Subscriptions.Claim(c.Request().Context(), wake(c).Key, req.Worker)
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

// acks returns the offsets that the worker has processed, in the order of the request. Code
// INVALID_OFFSET for one that no server issued.
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

// callStreamSub returns the handler of POST …/callback, …/ack and …/release. The acknowledgements
// are applied together or not at all. Codes FENCED for an old generation or wake; INVALID_OFFSET;
// INVALID_REQUEST.
func (s *Handler) callStreamSub(call streamsub.Call) echo.HandlerFunc {
	return func(c echo.Context) error {
		k, err := streamSubKey(c)
		if err != nil {
			return err
		}
		var req callRequest
		if err := controlBody(c, &req); err != nil {
			return err
		}
		said := call
		said.Token, said.Wake, said.Generation, said.Done = httpkit.Bearer(c.Request().Header), req.Wake, req.Generation, req.Done
		if said.Acks, err = req.acks(); err != nil {
			return err
		}
		woken, err := s.opts.Subscriptions.Call(c.Request().Context(), k, said)
		if err != nil {
			return err
		}
		if said.Release {
			return c.NoContent(http.StatusNoContent)
		}
		return c.JSON(http.StatusOK, callAnswer{OK: true, NextWake: woken})
	}
}
