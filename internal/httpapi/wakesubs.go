package httpapi

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// everything is the pattern that lists all subscriptions (S1-111, S1-112).
const everything sluice.Pattern = "/**"

// Parameters that turn a stream's URL into a pattern (S1-106…113).
const (
	paramSubscription  = "subscription"
	paramSubscriptions = "subscriptions"
)

// apart returns a route that checks and handles requests about subscriptions with of and handle,
// and requests about streams with r.
func apart(r httpkit.Route, of echo.HandlerFunc, handle echo.HandlerFunc) httpkit.Route {
	about := func(c echo.Context) bool {
		return c.QueryParams().Has(paramSubscription) || c.QueryParams().Has(paramSubscriptions)
	}
	streams := r
	r.Demand = func(c echo.Context) error {
		if about(c) {
			return of(c)
		}
		return streams.Demand(c)
	}
	r.Handle = func(c echo.Context) error {
		if about(c) {
			return handle(c)
		}
		return streams.Handle(c)
	}
	return r
}

// wakeRequest is S1's request for a subscription (S1-106).
type wakeRequest struct {
	Webhook     string `json:"webhook"`
	Description string `json:"description"`
	Handshake   bool   `json:"handshake"` // extension of S1; as endpoint.handshake
}

// wakeSubscription is a subscription of mode wake in the form of S1 (S1-107).
type wakeSubscription struct {
	ID          string         `json:"subscription_id"`
	Pattern     sluice.Pattern `json:"pattern"`
	Webhook     string         `json:"webhook"`
	Secret      string         `json:"webhook_secret,omitempty"` // after creation only
	Description string         `json:"description"`

	Handshake bool              `json:"handshake,omitempty"` // extension of S1
	Agreed    *sluice.Agreement `json:"agreed,omitempty"`
}

func inS1(sub *sluice.Subscription) wakeSubscription {
	return wakeSubscription{
		ID: sub.ID, Pattern: sub.Pattern, Webhook: sub.Endpoint.URL, Secret: sub.Endpoint.Secret, Description: sub.Description,
		Handshake: sub.Endpoint.Handshake, Agreed: sub.Agreed,
	}
}

// wakeSubscriptionList is S1's list (S1-110).
type wakeSubscriptionList struct {
	Subscriptions []wakeSubscription `json:"subscriptions"`
}

// patternOf returns the pattern in a request's URL; %2A in it is * (S1-25).
func patternOf(c echo.Context) (sluice.Pattern, error) {
	rest, err := httpkit.Param(c, "*")
	if err != nil {
		return "", err
	}
	return sluice.ParsePattern("/" + rest)
}

// wakeID returns the request's subscription. Code InvalidRequest if it names none.
func wakeID(c echo.Context) (string, error) {
	id := c.QueryParam(paramSubscription)
	if id == "" || c.QueryParams().Has(paramSubscriptions) {
		return "", sluice.Errorf(sluice.InvalidRequest, "name one subscription, ?subscription=<id>; only GET accepts ?subscriptions, for all").With("field", paramSubscription)
	}
	return id, nil
}

// ownedHere is owned for a request that names a subscription of mode wake beside a pattern. The
// pattern must be the subscription's own or, for reading, everything. A list needs only an
// authenticated caller: it contains the subscriptions that the caller may see.
func (s *Server) ownedHere(c echo.Context) error {
	looking := c.Request().Method == http.MethodGet
	if looking && c.QueryParams().Has(paramSubscriptions) {
		return httpkit.Authenticated(c)
	}
	pattern, err := patternOf(c)
	if err != nil {
		return err
	}
	id, err := wakeID(c)
	if err != nil {
		return err
	}
	sub, err := s.opts.Registry.Get(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if sub.Mode != sluice.Wake || sub.Namespace != c.Param("ns") || sub.Pattern != pattern && (!looking || pattern != everything) {
		return sluice.Errorf(sluice.SubscriptionMissing, "subscription %q not found for this pattern", id)
	}
	if err := s.owns(c, sub); err != nil {
		return err
	}
	c.Set(subscriptionKey, sub)
	return nil
}

// putWake creates a subscription of mode wake, or confirms an identical one (S1-106…109).
func (s *Server) putWake(c echo.Context) error {
	pattern, err := patternOf(c)
	if err != nil {
		return err
	}
	id, err := wakeID(c)
	if err != nil {
		return err
	}
	var wish wakeRequest
	if err := httpkit.Bind(c, &wish); err != nil {
		return err
	}
	if wish.Webhook == "" {
		return sluice.Errorf(sluice.InvalidRequest, "webhook is missing; set the URL for notices").With("field", "webhook")
	}
	sub, created, err := s.opts.Registry.Put(c.Request().Context(), id, &subscription.Request{
		Namespace: c.Param("ns"), Mode: sluice.Wake, Pattern: pattern, Description: wish.Description,
		Endpoint: sluice.Endpoint{URL: wish.Webhook, Handshake: wish.Handshake},
	}, httpkit.By(c))
	if err != nil {
		return ofWebhook(err, wish.Webhook)
	}
	if created {
		return c.JSON(http.StatusCreated, inS1(s.hideURL(c, sub)))
	}
	return c.JSON(http.StatusOK, inS1(s.hideURL(c, sub)))
}

// ofWebhook returns the error of a subscription with the field of the URL named as in S1.
func ofWebhook(err error, url string) error {
	if sluice.CodeOf(err) == sluice.InvalidRequest {
		err = cmp.Or(sluice.CheckURL("webhook", url), err)
	}
	e, ok := errors.AsType[*sluice.Error](err)
	if ok && e.Details["field"] == "endpoint.url" {
		return e.With("field", "webhook")
	}
	return err
}

// getWakes returns one subscription of mode wake (S1-112), or lists those of a pattern (S1-110,
// S1-111).
func (s *Server) getWakes(c echo.Context) error {
	if !c.QueryParams().Has(paramSubscriptions) {
		return c.JSON(http.StatusOK, inS1(s.hideURL(c, subscriptionOf(c))))
	}
	pattern, err := patternOf(c)
	if err != nil {
		return err
	}
	if c.QueryParams().Has(paramSubscription) {
		return sluice.Errorf(sluice.InvalidRequest, "send either ?subscription=<id> or ?subscriptions")
	}
	page, err := s.opts.Registry.List(c.Request().Context(), subscription.Query{
		Namespace: c.Param("ns"), Mode: sluice.Wake,
		Visible: func(sub *sluice.Subscription) bool {
			return (pattern == everything || sub.Pattern == pattern) && s.owns(c, sub) == nil
		},
	})
	if err != nil {
		return err
	}
	list := wakeSubscriptionList{[]wakeSubscription{}}
	for _, sub := range page.Subscriptions {
		list.Subscriptions = append(list.Subscriptions, inS1(s.hideURL(c, sub)))
	}
	return c.JSON(http.StatusOK, list)
}

// deleteWake deletes a subscription and its consumers (S1-113, S1-114).
func (s *Server) deleteWake(c echo.Context) error {
	if err := s.opts.Registry.Delete(c.Request().Context(), subscriptionOf(c).ID, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
