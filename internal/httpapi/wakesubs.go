package httpapi

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/registry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// everything is the pattern under which all subscriptions are found (S1-111, S1-112).
const everything sluice.Pattern = "/**"

// Parameters that make of a stream's address a pattern's (S1-106…113).
const (
	paramSubscription  = "subscription"
	paramSubscriptions = "subscriptions"
)

// apart returns a route whose requests about subscriptions are served apart from those about streams.
func apart(r route, of demand, handle echo.HandlerFunc) route {
	about := func(c echo.Context) bool {
		return c.QueryParams().Has(paramSubscription) || c.QueryParams().Has(paramSubscriptions)
	}
	streams := r
	r.demand = func(s *Server, c echo.Context) error {
		if about(c) {
			return of(s, c)
		}
		return streams.demand(s, c)
	}
	r.handle = func(c echo.Context) error {
		if about(c) {
			return handle(c)
		}
		return streams.handle(c)
	}
	return r
}

// wakeRequest is S1's request for a subscription (S1-106).
type wakeRequest struct {
	Webhook     string `json:"webhook"`
	Description string `json:"description"`
}

// wakeSubscription is a subscription of mode wake in the words of S1 (S1-107).
type wakeSubscription struct {
	ID          string         `json:"subscription_id"`
	Pattern     sluice.Pattern `json:"pattern"`
	Webhook     string         `json:"webhook"`
	Secret      string         `json:"webhook_secret,omitempty"` // after creation only
	Description string         `json:"description"`
}

func inS1(sub *sluice.Subscription) wakeSubscription {
	return wakeSubscription{sub.ID, sub.Pattern, sub.Endpoint.URL, sub.Endpoint.Secret, sub.Description}
}

// wakeSubscriptionList is S1's list (S1-110).
type wakeSubscriptionList struct {
	Subscriptions []wakeSubscription `json:"subscriptions"`
}

// patternOf returns the pattern that a request's address is; %2A in it is * (S1-25).
func patternOf(c echo.Context) (sluice.Pattern, error) {
	rest, err := paramOf(c, "*")
	if err != nil {
		return "", err
	}
	return sluice.ParsePattern("/" + rest)
}

// wakeID returns the subscription that a request names. Code InvalidRequest if it names none.
func wakeID(c echo.Context) (string, error) {
	id := c.QueryParam(paramSubscription)
	if id == "" || c.QueryParams().Has(paramSubscriptions) {
		return "", sluice.Errorf(sluice.InvalidRequest, "name one subscription, ?subscription=<id>; only GET takes ?subscriptions, for all").With("field", paramSubscription)
	}
	return id, nil
}

// ownedHere is owned for a subscription of mode wake that is named beside a pattern: that has to be its own, or, to
// look at it, the one of everything. A list has what the caller may see in it.
func ownedHere(s *Server, c echo.Context) error {
	looking := c.Request().Method == http.MethodGet
	if looking && c.QueryParams().Has(paramSubscriptions) {
		return anybody(s, c)
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
		return sluice.Errorf(sluice.SubscriptionMissing, "there is no subscription %q of this pattern", id)
	}
	if err := s.owns(c, sub); err != nil {
		return err
	}
	c.Set(subscriptionKey, sub)
	return nil
}

// putWake makes a subscription of mode wake, or finds that it is there (S1-106…109).
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
	if err := bind(c, &wish); err != nil {
		return err
	}
	if wish.Webhook == "" {
		return sluice.Errorf(sluice.InvalidRequest, "webhook is missing; write the URL that notices go to").With("field", "webhook")
	}
	sub, created, err := s.opts.Registry.Put(c.Request().Context(), id, &registry.Request{
		Namespace: c.Param("ns"), Mode: sluice.Wake, Pattern: pattern, Description: wish.Description, Endpoint: sluice.Endpoint{URL: wish.Webhook},
	}, by(c))
	if sluice.CodeOf(err) == sluice.InvalidRequest { // if it is because of the URL, it is said in the word that was written
		return cmp.Or(sluice.CheckURL("webhook", wish.Webhook), err)
	}
	if err != nil {
		return err
	}
	if created {
		return c.JSON(http.StatusCreated, inS1(s.hideURL(c, sub)))
	}
	return c.JSON(http.StatusOK, inS1(s.hideURL(c, sub)))
}

// getWakes shows one subscription of mode wake (S1-112), or lists those of a pattern (S1-110, S1-111).
func (s *Server) getWakes(c echo.Context) error {
	if !c.QueryParams().Has(paramSubscriptions) {
		return c.JSON(http.StatusOK, inS1(s.hideURL(c, subscription(c))))
	}
	pattern, err := patternOf(c)
	if err != nil {
		return err
	}
	if c.QueryParams().Has(paramSubscription) {
		return sluice.Errorf(sluice.InvalidRequest, "send ?subscription=<id> or ?subscriptions, not both")
	}
	page, err := s.opts.Registry.List(c.Request().Context(), registry.Query{
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

// deleteWake ends a subscription, and its consumers (S1-113, S1-114).
func (s *Server) deleteWake(c echo.Context) error {
	if err := s.opts.Registry.Delete(c.Request().Context(), subscription(c).ID, by(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
