package httpapi

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shown is a subscription in a response. The secret is present only after creation and rotation,
// both in the endpoint and next to it.
type shown struct {
	*sluice.Subscription

	Secret string `json:"secret,omitempty"`
}

// render sends a subscription with its last attempt and its revision as the ETag.
func (s *Server) render(c echo.Context, code int, sub *sluice.Subscription) error {
	if err := s.date(c, sub); err != nil {
		return err
	}
	httpkit.SetETag(c, sub.Revision)
	return c.JSON(code, shown{s.hideURL(c, sub), sub.Endpoint.Secret})
}

// hideURL returns the subscription as visible to the caller: complete for its owner and root,
// otherwise with only the host of its endpoint's URL, because path and query are often secrets. It
// does not change sub.
func (s *Server) hideURL(c echo.Context, sub *sluice.Subscription) *sluice.Subscription {
	if httpkit.Caller(c).Unbounded() || s.isOwner(c, sub) {
		return sub
	}
	seen := *sub
	seen.Endpoint.URL = sluice.HideURL(sub.Endpoint.URL)
	return &seen
}

// date sets LastEventAt, the time of the subscription's last attempt (S0-76).
func (s *Server) date(c echo.Context, sub *sluice.Subscription) error {
	at, err := s.opts.Deliveries.LastAttemptAt(c.Request().Context(), sub)
	if err == nil && !at.IsZero() {
		sub.LastEventAt = &at
	}
	return err
}

// createSubscription answers POST /v1/subscriptions, also below a namespace (S0-07): 201 with the
// secret for a new subscription, 200 without it for a duplicate by idempotency_key or structure
// (S0-26 to S0-28). The mode mirror creates a mirror. The registry checks access before it stores
// anything (S0-54, S0-55). Codes: those of Registry.Create.
func (s *Server) createSubscription(c echo.Context) error {
	body, err := httpkit.JSONBody(c)
	if err != nil {
		return err
	}
	if mirrors.Wanted(body) {
		return s.mirrors.Create(c, "", body)
	}
	req, err := subscription.ParseRequest(body)
	if err != nil {
		return err
	}
	if err := req.Within(c.Param("ns")); err != nil {
		return err
	}
	sub, created, err := s.opts.Registry.Create(c.Request().Context(), req, httpkit.By(c))
	if err != nil {
		return err
	}
	return s.made(c, sub, created)
}

// putSubscription answers PUT /v1/subscriptions/{id}: as createSubscription, under the ID in the
// path. Code SubscriptionDiffers if the ID has another configuration (C09). It never changes a
// subscription.
func (s *Server) putSubscription(c echo.Context) error {
	body, err := httpkit.JSONBody(c)
	if err != nil {
		return err
	}
	if mirrors.Wanted(body) {
		return s.mirrors.Create(c, c.Param("id"), body)
	}
	req, err := subscription.ParseRequest(body)
	if err != nil {
		return err
	}
	sub, created, err := s.opts.Registry.Put(c.Request().Context(), c.Param("id"), req, httpkit.By(c))
	if err != nil {
		return err
	}
	return s.made(c, sub, created)
}

// made sends a subscription with its URL in Location: 201 if it was created, else 200.
func (s *Server) made(c echo.Context, sub *sluice.Subscription, created bool) error { //nolint:revive // created is a result on its way
	c.Response().Header().Set(echo.HeaderLocation, "/v1/subscriptions/"+sub.ID)
	if created {
		return s.render(c, http.StatusCreated, sub)
	}
	return s.render(c, http.StatusOK, sub)
}

// subscriptionList is one page of subscriptions.
type subscriptionList struct {
	Subscriptions []*sluice.Subscription `json:"subscriptions"`
	NextCursor    string                 `json:"next_cursor"`
}

// namespaceOf returns the namespace whose subscriptions are listed: that of the URL or of the
// parameter, "" for all.
func namespaceOf(c echo.Context) string { return cmp.Or(c.Param("ns"), c.QueryParam("namespace")) }

// listSubscriptions answers GET /v1/subscriptions and GET /v1/namespaces/{ns}/subscriptions: a page
// of those that the caller manages (S0-08, C16), newest first, or by ID with order=id, which is
// stable while others are created. Mirrors are listed with mode=mirror only.
func (s *Server) listSubscriptions(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "mode", string(sluice.Push), string(sluice.Wake), string(sluice.Mirroring)); err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "state", string(sluice.Active), string(sluice.Paused), string(sluice.Disabled), string(sluice.Suspended), string(sluice.Cancelled)); err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "order", "created", "id"); err != nil {
		return err
	}
	if sluice.Mode(c.QueryParam("mode")) == sluice.Mirroring {
		return s.mirrors.List(c, p)
	}
	if c.QueryParam("source") != "" {
		return sluice.Errorf(sluice.InvalidRequest, "source: only mirrors have one; add mode=mirror").With("field", "source")
	}
	page, err := s.opts.Registry.List(c.Request().Context(), subscription.Query{
		Namespace: namespaceOf(c),
		Mode:      sluice.Mode(c.QueryParam("mode")),
		State:     sluice.State(c.QueryParam("state")),
		ByID:      c.QueryParam("order") == "id",
		Limit:     p.Limit,
		Cursor:    p.Cursor,
		Visible:   func(sub *sluice.Subscription) bool { return s.owns(c, sub) == nil },
	})
	if err != nil {
		return err
	}
	list := subscriptionList{page.Subscriptions, page.NextCursor}
	if list.Subscriptions == nil {
		list.Subscriptions = []*sluice.Subscription{}
	}
	for i, sub := range list.Subscriptions {
		if err := s.date(c, sub); err != nil {
			return err
		}
		list.Subscriptions[i] = s.hideURL(c, sub)
	}
	return c.JSON(http.StatusOK, list)
}

// getSubscription answers GET /v1/subscriptions/{id} (S0-09). SubscriptionMissing also means that
// the caller does not manage it (S0-86), here and in all routes below {id}.
func (s *Server) getSubscription(c echo.Context) error {
	sub := subscriptionOf(c)
	return s.render(c, http.StatusOK, sub)
}

// patchSubscription answers PATCH /v1/subscriptions/{id} with a JSON merge patch, for admins of the
// namespace (S4-69). If-Match fences it: RevisionMismatch. Codes: those of Registry.Patch.
func (s *Server) patchSubscription(c echo.Context) error {
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	patch, err := httpkit.JSONBody(c)
	if err != nil {
		return err
	}
	sub, err := s.opts.Registry.Patch(c.Request().Context(), c.Param("id"), patch, revision, httpkit.By(c))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, sub)
}

// deleteSubscription answers DELETE /v1/subscriptions/{id} with 204 (S0-10, C39). A repetition gets
// SubscriptionMissing. After any other error the subscription is unchanged or cancelled, and the
// request can be repeated.
func (s *Server) deleteSubscription(c echo.Context) error {
	if err := s.opts.Registry.Delete(c.Request().Context(), c.Param("id"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// pauseSubscription answers POST …/pause. It is idempotent: a paused, disabled or suspended one is
// returned unchanged. Code Conflict for a cancelled one.
func (s *Server) pauseSubscription(c echo.Context) error {
	sub, err := s.opts.Registry.Pause(c.Request().Context(), c.Param("id"), httpkit.By(c))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, sub)
}

// resumeSubscription answers POST …/resume, for a paused, disabled or suspended subscription. It is
// idempotent. Code Conflict for a cancelled one.
func (s *Server) resumeSubscription(c echo.Context) error {
	sub, err := s.opts.Registry.Resume(c.Request().Context(), c.Param("id"), httpkit.By(c))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, sub)
}

// rotateSecret answers POST …/secret/rotate with the new secret, which no later response has (C36).
// It is not idempotent without an Idempotency-Key. Code Conflict for a cancelled subscription.
func (s *Server) rotateSecret(c echo.Context) error {
	var req struct {
		Overlap *sluice.Duration `json:"overlap"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	overlap := subscription.DefaultOverlap
	if req.Overlap != nil {
		overlap = req.Overlap.Std()
	}
	sub, err := s.opts.Registry.Rotate(c.Request().Context(), c.Param("id"), overlap, httpkit.By(c))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, sub)
}

// seekSubscription answers POST …/seek. It counts as a send, because past events may be delivered
// again. Codes: those of Registry.Seek; QuotaExceeded.
func (s *Server) seekSubscription(c echo.Context) error {
	var req struct {
		To json.RawMessage `json:"to"` // a string, or a number for a sequence
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if err := s.paysForSend(c); err != nil { // past events are sent again
		return err
	}
	sub, err := s.opts.Registry.Seek(c.Request().Context(), c.Param("id"), placeIn(req.To), httpkit.By(c))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, sub)
}

// placeIn returns a position in a request body: a string, which may be an age, or a number. Invalid
// values are refused later.
func placeIn(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return sluice.Ago(text, time.Now())
	}
	return string(value)
}

// testSubscription answers POST …/test with the attempt: 200 also for a failed one, because the
// request was made. A success counts as a probe. Codes Conflict for a cancelled
// subscription; QuotaExceeded; Unprocessable for a type without an example.
func (s *Server) testSubscription(c echo.Context) error {
	if err := s.paysForSend(c); err != nil {
		return err
	}
	sub := subscriptionOf(c)
	eventType, data, err := s.sample(c, sub.Namespace)
	if err != nil {
		return err
	}
	attempt, err := s.opts.Deliveries.Test(c.Request().Context(), sub, eventType, data)
	if err != nil {
		return err
	}
	if attempt.Outcome == sluice.Delivered && s.opts.Retrier != nil {
		if err := s.opts.Retrier.Proved(c.Request().Context(), sub, httpkit.By(c)); err != nil { // the test succeeded all the same
			s.opts.Logger.WarnContext(c.Request().Context(), "breaker not told of a successful test", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	}
	return c.JSON(http.StatusOK, attempt)
}

// sample returns the type in a request for a test, and the first example of its schema in the
// catalogue. Without a type both are empty, and the server chooses. Codes NotFound for the type;
// Unprocessable without an example.
func (s *Server) sample(c echo.Context, namespace string) (eventType string, data []byte, err error) {
	var req struct {
		Type string `json:"type"`
	}
	if err := httpkit.Bind(c, &req); err != nil || req.Type == "" {
		return "", nil, err
	}
	if err := s.rights.Sees(c, namespace); err != nil {
		return "", nil, err
	}
	t, err := s.opts.EventTypes.Get(c.Request().Context(), namespace, req.Type)
	if err != nil {
		return "", nil, err
	}
	var schema struct {
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal([]byte(cmp.Or(string(t.Schema), "{}")), &schema); err != nil || len(schema.Examples) == 0 {
		return "", nil, sluice.Errorf(sluice.Unprocessable, "the schema of %s in the catalogue has no examples; an admin can add some", req.Type).With("field", "type")
	}
	return req.Type, schema.Examples[0], nil
}

// subscriptionStatus answers GET …/status. The numbers are read now, and cost requests to the
// store.
func (s *Server) subscriptionStatus(c echo.Context) error {
	sub := subscriptionOf(c)
	if sub.Mode == sluice.Wake {
		return s.wakeStatus(c, sub)
	}
	st, err := s.opts.Deliveries.Status(c.Request().Context(), sub)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, st)
}
