package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deliveryList is one page of deliveries.
type deliveryList struct {
	Deliveries []explain.Delivery `json:"deliveries"`
	NextCursor string             `json:"next_cursor"`
}

// listDeliveries lists a subscription's deliveries, newest first (S0-85). It answers GET
// …/deliveries. A page may be shorter than the limit, because of hidden events, and not the last.
func (s *Server) listDeliveries(c echo.Context) error {
	ctx := c.Request().Context()
	q, err := parseDeliveryQuery(c)
	if err != nil {
		return err
	}
	sub := subscriptionOf(c)
	page, err := s.opts.Explain.List(ctx, sub, q)
	if err != nil {
		return err
	}
	page.Deliveries = slices.DeleteFunc(page.Deliveries, func(d explain.Delivery) bool { return !s.knowsPlace(c, sub, d.Path, d.Seq) })
	return c.JSON(http.StatusOK, deliveryList{page.Deliveries, page.Next})
}

// deliveryStates returns the states that a filter selects: its name is that of one state, or of a
// group of states.
func deliveryStates(name string) ([]explain.State, error) {
	switch name {
	case "":
		return nil, nil // no filter
	case string(explain.Delivered), string(explain.Retrying), string(explain.Held), string(explain.Dead):
		return []explain.State{explain.State(name)}, nil
	case "parked":
		return []explain.State{explain.Retrying, explain.Held}, nil
	case "failed":
		return []explain.State{explain.Retrying, explain.Held, explain.Dead}, nil
	}
	return nil, sluice.Errorf(sluice.InvalidRequest, "state %q: use one of delivered, retrying, held, dead, parked (retrying or held), failed (all except delivered)", name).With("field", "state")
}

// parseDeliveryQuery parses the parameters. Since selects events by sequence or attempts by time,
// until attempts by time.
func parseDeliveryQuery(c echo.Context) (q explain.Query, err error) {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	q.Cursor, q.Limit = p.Cursor, p.Limit
	if q.States, err = deliveryStates(c.QueryParam("state")); err != nil {
		return q, err
	}
	if q.Pattern, err = httpkit.PatternParam(c, "path"); err != nil {
		return q, err
	}
	if text := c.QueryParam("event_type"); text != "" {
		q.Types = httpkit.SplitTypes(text)
	}
	if err := parseSince(&q, httpkit.PlaceParam(c, "since")); err != nil {
		return q, err
	}
	q.Until, err = httpkit.TimeParam(c, "until")
	return q, err
}

// parseSince sets the begin of a query; "" leaves it. Code InvalidRequest for an event ID, which is
// no position among attempts.
func parseSince(q *explain.Query, text string) error {
	if text == "" {
		return nil
	}
	since, err := sluice.ParseCursor(text)
	if err != nil {
		return httpkit.InField(err, "since")
	}
	switch since.Kind {
	case sluice.CursorBeginning:
	case sluice.CursorSeq:
		q.After = since.Seq
	case sluice.CursorTime:
		q.Since = since.Time
	case sluice.CursorEvent, sluice.CursorNow:
		return sluice.Errorf(sluice.InvalidRequest, "since %q: use a sequence, -1, an RFC 3339 time, or an age such as 10m", text).With("field", "since")
	}
	return nil
}

// getDelivery explains the delivery of an event, with or without attempts. It answers GET
// …/deliveries/{event}, by ID or sequence. Codes NotFound; QuotaExceeded if the filter costs more
// than the caller may spend.
func (s *Server) getDelivery(c echo.Context) error {
	ctx := c.Request().Context()
	sub := subscriptionOf(c)
	event, err := httpkit.Param(c, "event")
	if err != nil {
		return err
	}
	if err := s.seesEvent(c, sub, event); err != nil {
		return err
	}
	d, err := s.opts.Explain.Delivery(ctx, sub, event, s.payer(c, sub.Namespace))
	if err == nil && d.Path != "" {
		err = s.stillShows(c, sub, &d)
	}
	if err != nil {
		return err
	}
	for i := range d.Attempts {
		s.keepKnown(c, sub, &d.Attempts[i])
	}
	return c.JSON(http.StatusOK, d)
}

// stillShows requires that the caller may see the delivery of an event that may have left the log,
// for example by erasure. Responses of endpoints are left out then.
func (s *Server) stillShows(c echo.Context, sub *sluice.Subscription, d *explain.Delivery) error {
	ev, gone := s.opts.Log.EventAt(c.Request().Context(), sub.Namespace, d.Seq)
	if gone != nil {
		ev = sluice.Event{Namespace: sub.Namespace, Path: d.Path, Seq: d.Seq}
	}
	if err := s.seesThis(c, &ev); err != nil {
		return err
	}
	if gone != nil {
		d.Attempts = unjudged(c, d.Attempts)
	}
	return nil
}

// unjudged returns the attempts of an event whose label is unknown, as the caller may see them:
// responses of endpoints may repeat the request.
func unjudged(c echo.Context, all []sluice.Attempt) []sluice.Attempt {
	if httpkit.Caller(c).Unbounded() {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		all[i].Response, all[i].Output = "", ""
	}
	return all
}

// retryDelivery retries the delivery of an event. The head of a parked lane is sent immediately,
// any other event by a replay. It answers POST …/deliveries/{event}/retry with 202 and the replay.
// Codes NotFound; WindowExceeded for an event that is no longer stored; Conflict if the event
// cannot be sent; QuotaExceeded.
func (s *Server) retryDelivery(c echo.Context) error {
	if err := s.paysForSend(c); err != nil {
		return err
	}
	who := httpkit.By(c)
	return s.actOnDelivery(c, func(ctx context.Context, sub *sluice.Subscription, event string) (sluice.Replay, error) {
		return s.opts.Retrier.Retry(ctx, sub, event, who)
	})
}

// discardDelivery discards the head of a held lane, which then continues.
func (s *Server) discardDelivery(c echo.Context) error {
	who := httpkit.By(c)
	return s.actOnDelivery(c, func(ctx context.Context, sub *sluice.Subscription, event string) (sluice.Replay, error) {
		return s.opts.Retrier.Discard(ctx, sub, event, who)
	})
}

// probeSubscription makes the next probe of an open breaker due at once.
func (s *Server) probeSubscription(c echo.Context) error { return s.actOnAll(c, Retrier.Probe) }

// retryLanes makes all parked lanes due at once.
func (s *Server) retryLanes(c echo.Context) error { return s.actOnAll(c, Retrier.RetryLanes) }

// actOnAll performs an act on a subscription for POST …/probe and …/retry, with 202 and the replay.
// Code Conflict unless the subscription is active.
func (s *Server) actOnAll(c echo.Context, act func(Retrier, context.Context, *sluice.Subscription, string) (sluice.Replay, error)) error {
	if err := s.paysForSend(c); err != nil {
		return err
	}
	if s.opts.Retrier == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support retrying deliveries")
	}
	replay, err := act(s.opts.Retrier, c.Request().Context(), subscriptionOf(c), httpkit.By(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, replay)
}

// actOnDelivery performs an act on the delivery of an event that the caller may see.
func (s *Server) actOnDelivery(c echo.Context, act func(ctx context.Context, sub *sluice.Subscription, event string) (sluice.Replay, error)) error {
	ctx := c.Request().Context()
	sub := subscriptionOf(c)
	event, err := httpkit.Param(c, "event")
	if err != nil {
		return err
	}
	if err := s.seesEvent(c, sub, event); err != nil {
		return err
	}
	if s.opts.Retrier == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support retrying deliveries")
	}
	replay, err := act(ctx, sub, event)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, replay)
}

// subscriptionEvents reads the events of a subscription within its replay window (S0-50…52). With
// wait, it responds as soon as there is an event; a disconnect or the server's shutdown ends the
// wait. It answers GET …/events, in log order; after is exclusive, and next_after continues also
// after an empty page. Codes NotFound; WindowExceeded for an event outside the window (S0-52);
// QuotaExceeded.
func (s *Server) subscriptionEvents(c echo.Context) error {
	q, wait, err := parseWindowQuery(c)
	if err != nil {
		return err
	}
	sub := subscriptionOf(c)
	appendAll, err := s.windowShape(c.QueryParam("envelope"), sub)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilEnd(c.Request().Context())
	defer cancel()
	q.Wanted = s.rights.Visible(c, sluice.VerbSubscribe)
	page, err := s.opts.Explain.Events(ctx, sub, q, wait)
	if err = cmp.Or(authz.Lost(ctx), err); err == nil {
		err = s.startsAtShown(c, sluice.VerbSubscribe, sub.Namespace, q.After)
	}
	if err != nil {
		return err
	}
	if page.Events, err = s.rights.Shown(c, sluice.VerbSubscribe, page.Events); err != nil {
		return err
	}
	b := appendAll([]byte(`{"events":`), page.Events)
	b = strconv.AppendUint(append(b, `,"next_after":"`...), page.Next, 10)
	b = strconv.AppendInt(append(b, `","replay_window_s":`...), sub.ReplayWindowS, 10)
	return c.JSONBlob(http.StatusOK, append(b, '}'))
}

// windowShape returns the writer for the events of a replay window. A subscription created in the
// form of S0 gets the facts that its endpoint gets (S0-29, S0-51), others get CloudEvents; the
// query parameter envelope overrides this. Code InvalidRequest for an envelope that a list cannot
// have.
func (s *Server) windowShape(envelope string, sub *sluice.Subscription) (func([]byte, []sluice.Event) []byte, error) {
	if envelope == "" && sub.Target != "" {
		envelope = string(sluice.EnvelopeFact)
	}
	switch sluice.Envelope(envelope) {
	case "", sluice.EnvelopeCloudEvents:
		return appendEvents, nil
	case sluice.EnvelopeFact:
		return func(b []byte, events []sluice.Event) []byte {
			b = append(b, '[')
			for i := range events {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(b, s.opts.Fact(sub, &events[i])...)
			}
			return append(b, ']')
		}, nil
	case sluice.EnvelopeBinary, sluice.EnvelopeAttempt, sluice.EnvelopeRaw, sluice.EnvelopeTemplate, sluice.EnvelopeNotice:
	}
	return nil, sluice.Errorf(sluice.InvalidRequest, "envelope %q: use cloudevents or fact", envelope).With("field", "envelope")
}

// parseWindowQuery parses the parameters; wait is 0 to 30 s.
func parseWindowQuery(c echo.Context) (q model.WindowQuery, wait time.Duration, err error) {
	for _, types := range c.QueryParams()["types"] {
		q.Types = append(q.Types, httpkit.SplitTypes(types)...)
	}
	if q.After = httpkit.PlaceParam(c, "after"); q.After != "" {
		if _, err := sluice.ParseCursor(q.After); err != nil {
			return q, 0, httpkit.InField(err, "after")
		}
	}
	if q.Limit, err = httpkit.Limit(c); err != nil {
		return q, 0, err
	}
	wait, err = httpkit.Wait(c)
	return q, wait, err
}
