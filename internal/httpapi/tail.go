package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of concurrent requests that follow attempts, because each has a JetStream consumer of its
// own.
const (
	tailsAtOnce = 256
	tailsOfOne  = 16 // of an accountable principal
)

// AttemptLog reads the attempts at all deliveries, in the order in which they were recorded.
type AttemptLog interface {
	// LastAttemptPlace returns the place of the last attempt.
	LastAttemptPlace(ctx context.Context) (uint64, error)
	// AttemptsAfter returns attempts after a place, and the place up to which it has read. If there
	// are none and the query waits, it returns as soon as there is one, or when the wait is over.
	AttemptsAfter(ctx context.Context, q model.TailQuery) ([]sluice.Attempt, uint64, error)
}

// attemptList is a page of attempts.
type attemptList struct {
	Attempts  []sluice.Attempt `json:"attempts"`
	NextAfter string           `json:"next_after"`
}

// listAttempts returns the attempts after a place, of the subscriptions that the caller manages.
// Without a place it returns only the current one. The responses of endpoints are left out.
func (s *Server) listAttempts(c echo.Context) error {
	q, err := parseTailQuery(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilEnd(c.Request().Context())
	defer cancel()
	if err := s.tailed(c, q); err != nil {
		return err
	}
	if c.QueryParam("after") == "" {
		place, err := s.opts.Attempts.LastAttemptPlace(ctx)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, attemptList{[]sluice.Attempt{}, strconv.FormatUint(place, 10)})
	}
	who := s.payer(c, q.Namespace)
	if s.tails.Take(who) != nil {
		return sluice.Errorf(sluice.QuotaExceeded, "%d requests follow attempts, or %d of yours, the limit; end one, or try again", tailsAtOnce, tailsOfOne).With("retry_after", 1)
	}
	defer s.tails.Leave(who)
	found, place, err := s.opts.Attempts.AttemptsAfter(ctx, q)
	if err = cmp.Or(authz.Lost(ctx), err); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, attemptList{s.ownAttempts(c, found), strconv.FormatUint(place, 10)})
}

// tailed returns an error unless the caller manages the subscription that the query names, or the
// namespace exists if it names none.
func (s *Server) tailed(c echo.Context, q model.TailQuery) error {
	if q.Subscription == "" {
		_, err := s.opts.Namespaces.Namespace(c.Request().Context(), q.Namespace)
		return err
	}
	sub, err := s.opts.Registry.Get(c.Request().Context(), q.Subscription)
	if err == nil {
		err = s.owns(c, sub)
	}
	if err == nil && sub.Namespace != q.Namespace {
		err = sluice.Errorf(sluice.InvalidRequest, "subscription %q is one of %s", q.Subscription, sub.Namespace).With("field", "subscription")
	}
	return err
}

// parseTailQuery parses the parameters. An absent after asks for the present place, and 0 does not;
// After is 0 for both, and listAttempts tells them apart.
func parseTailQuery(c echo.Context) (q model.TailQuery, err error) {
	q.Namespace, q.Subscription = c.Param("ns"), c.QueryParam("subscription")
	if text := c.QueryParam("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, sluice.Errorf(sluice.InvalidRequest, "after %q: use next_after of the previous page; without it you get the present place", text).With("field", "after")
		}
	}
	if q.Limit, err = httpkit.Limit(c); err != nil {
		return q, err
	}
	q.Wait, err = httpkit.Wait(c)
	return q, err
}

// ownAttempts returns the attempts of subscriptions that the caller manages, not of former ones with
// their ids, for events on paths that it may see. It removes the responses of endpoints.
func (s *Server) ownAttempts(c echo.Context, all []sluice.Attempt) []sluice.Attempt {
	subs := map[string]*sluice.Subscription{} // nil: not the caller's
	shown := make([]sluice.Attempt, 0, len(all))
	for i := range all {
		a := &all[i]
		sub, known := subs[a.Subscription]
		if !known {
			found, err := s.opts.Registry.Get(c.Request().Context(), a.Subscription)
			if err == nil && s.owns(c, found) == nil {
				sub = found
			}
			subs[a.Subscription] = sub
		}
		if sub != nil && sub.Namespace == c.Param("ns") && !a.StartedAt.Before(sub.CreatedAt) && s.knowsPlace(c, sub, a.Path, a.Seq) {
			a.Response, a.Output = "", ""
			s.keepKnown(c, sub, a)
			shown = append(shown, *a)
		}
	}
	return shown
}

// keepKnown removes the events of a batch whose paths the caller may not see.
func (s *Server) keepKnown(c echo.Context, sub *sluice.Subscription, a *sluice.Attempt) {
	a.Batch = slices.DeleteFunc(a.Batch, func(one sluice.EventRef) bool { return !s.knows(c, sub, one.Path) })
}
