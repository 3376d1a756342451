package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Wakes manages the wake consumers of subscriptions of mode wake (S1).
type Wakes interface {
	// Admit refuses a callback with an invalid token, with the codes of Call, before its body is
	// read, so that unauthenticated bodies cost no memory.
	Admit(ctx context.Context, namespace, consumerID, token string) error
	// Call handles a callback: the raw bearer token, "" if absent, and the raw body. A refusal is
	// an error with one of the codes sluice.Wake…; with WakeTokenExpired, the response may have a
	// new token. Other codes are general errors.
	Call(ctx context.Context, namespace, consumerID, token string, body []byte) (model.WakeAnswer, error)
	// Consumers returns a page of a subscription's consumers, by path.
	Consumers(ctx context.Context, sub *sluice.Subscription, q model.WakeQuery) (model.WakePage, error)
	// Consumer returns the consumer of a path, with the ends of its streams and the attempts of its
	// last wake. Code NotFound.
	Consumer(ctx context.Context, sub *sluice.Subscription, path sluice.Path) (sluice.WakeConsumer, error)
	// Ended is called after a stream was deleted, and removes its consumers before it returns
	// (S1-122). Callers may call it repeatedly, even after a new stream was created on the path,
	// whose consumers it must keep.
	Ended(ctx context.Context, namespace string, path sluice.Path) error
}

// endingLimit is the time limit for removing the consumers of a deleted stream.
const endingLimit = 10 * time.Second

// newTokenKey is the context key of the new token with which the worker may repeat a failed
// callback.
const newTokenKey = "token"

// called is the response to a callback (S1-82).
type called struct {
	OK bool `json:"ok"`
	model.WakeAnswer
}

// refused is the response to a failed callback (S1-92).
type refused struct {
	OK    bool         `json:"ok"`
	Error refusedError `json:"error"`
	Token string       `json:"token,omitempty"`
}

type refusedError struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
}

// callback handles a worker's report. Invalid callback tokens do not count as failed API
// authentications: a callback token is a MAC that cannot be guessed, and many workers share an
// address, so a late or replaced one must not block the others. It answers POST
// /callback/{ns}/{consumer} (S1-82); refusals have the codes and the form of S1.
func (s *Server) callback(c echo.Context) error {
	namespace, err := httpkit.Param(c, "ns")
	if err != nil {
		return err
	}
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	ctx, consumer, token := c.Request().Context(), calledBy(c.Request().URL), httpkit.Bearer(c.Request().Header)
	if err := wakes.Admit(ctx, namespace, consumer, token); err != nil {
		return err
	}
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	answer, err := wakes.Call(ctx, namespace, consumer, token, data)
	if err != nil {
		c.Set(newTokenKey, answer.Token)
		return err
	}
	if answer.Streams == nil {
		answer.Streams = []model.WakeAcked{}
	}
	return c.JSON(http.StatusOK, called{true, answer})
}

// calledBy returns the consumer's ID in the URL of a callback, unchanged: neither a %2F nor a
// decoded slash separates segments (S1-15).
func calledBy(u *url.URL) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/callback/"), "/")
	return rest
}

// refusal returns the response to a failed callback.
func refusal(c echo.Context, e *sluice.Error) refused {
	code := e.Code
	if code == sluice.InvalidRequest {
		code = sluice.WakeInvalid
	}
	token, _ := c.Get(newTokenKey).(string)
	return refused{Error: refusedError{code, e.Message}, Token: token}
}

func (s *Server) wakes() (Wakes, error) {
	if s.opts.Wakes == nil {
		return nil, sluice.Errorf(sluice.Unavailable, "this server does not support wakes")
	}
	return s.opts.Wakes, nil
}

// woken is owned for operations that exist only in mode wake.
func (s *Server) woken(c echo.Context) error {
	if err := s.owned(c); err != nil {
		return err
	}
	if sub := subscriptionOf(c); sub.Mode != sluice.Wake {
		return sluice.Errorf(sluice.Unprocessable, "a subscription of mode %s has no consumers; list its deliveries: GET /v1/subscriptions/%s/deliveries", sub.Mode, sub.ID)
	}
	return nil
}

// delivering is owned for operations that do not exist in mode wake, which delivers no events.
// Instead names the alternative.
func (s *Server) delivering(instead string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.owned(c); err != nil {
			return err
		}
		if subscriptionOf(c).Mode == sluice.Wake {
			return sluice.Errorf(sluice.Unprocessable, "a subscription of mode wake sends notices, not events; %s", instead)
		}
		return nil
	}
}

// Alternatives in mode wake to missing operations.
const (
	insteadOfLooking  = "GET …/consumers shows the state of its consumers, GET …/consumers/{path} the attempts of the last notice"
	insteadOfMoving   = "its workers move offsets with callbacks (acks), and read streams from any offset"
	insteadOfReading  = "read the streams from the offsets of a notice: GET /streams/{namespace}/{path}?offset="
	insteadOfTesting  = "append to a matching stream to trigger a notice"
	insteadOfRetrying = "a notice is retried until a worker claims it; POST …/resume resumes a paused subscription"
)

// consumerList is one page of wake consumers.
type consumerList struct {
	Consumers  []sluice.WakeConsumer    `json:"consumers"`
	NextCursor string                   `json:"next_cursor"`
	Counts     map[sluice.WakeState]int `json:"counts"`
}

// listConsumers lists a subscription's wake consumers by path.
func (s *Server) listConsumers(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "state", string(sluice.WakeIdle), string(sluice.WakeWaking), string(sluice.WakeLive), string(sluice.WakeRemoved)); err != nil {
		return err
	}
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	sub := subscriptionOf(c)
	page, err := wakes.Consumers(c.Request().Context(), sub, model.WakeQuery{
		State: sluice.WakeState(c.QueryParam("state")), After: p.Cursor, Limit: p.Limit,
	})
	if err != nil {
		return err
	}
	list := consumerList{[]sluice.WakeConsumer{}, page.Next, page.Counts}
	for _, one := range page.Consumers {
		if s.knows(c, sub, one.Path) {
			list.Consumers = append(list.Consumers, s.visibleOf(c, sub, one))
		}
	}
	if list.Counts == nil {
		list.Counts = map[sluice.WakeState]int{}
	}
	return c.JSON(http.StatusOK, list)
}

// getConsumer shows one wake consumer.
func (s *Server) getConsumer(c echo.Context) error {
	name, err := httpkit.Param(c, "consumer")
	if err != nil {
		return err
	}
	sub := subscriptionOf(c)
	path, ok := consumerPath(sub.ID, name)
	if !ok || !s.knows(c, sub, path) {
		return authz.Concealed()
	}
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	one, err := wakes.Consumer(c.Request().Context(), sub, path)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.visibleOf(c, sub, one))
}

// consumerPath returns the path of a consumer given by its path or its ID, with the path decoded or
// not: every path starts with a slash. ok is false if the consumer does not belong to the
// subscription.
func consumerPath(subscription, name string) (path sluice.Path, ok bool) {
	escaped, _ := strings.CutPrefix(name, subscription+":")
	if !strings.HasPrefix(escaped, "/") {
		var err error
		if escaped, err = url.PathUnescape(escaped); err != nil {
			return "", false
		}
	}
	path, err := sluice.ParsePath(escaped)
	return path, err == nil
}

// visibleOf returns a consumer without the streams hidden from the caller: a worker may subscribe
// to any stream (S1-99).
func (s *Server) visibleOf(c echo.Context, sub *sluice.Subscription, one sluice.WakeConsumer) sluice.WakeConsumer {
	kept := []sluice.WakeStream{}
	for _, stream := range one.Streams {
		if s.knows(c, sub, stream.Path) {
			kept = append(kept, stream)
		}
	}
	one.Streams = kept
	return one
}

// wakeStatus returns the status of a subscription of mode wake, which consists of its consumers.
func (s *Server) wakeStatus(c echo.Context, sub *sluice.Subscription) error {
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	page, err := wakes.Consumers(c.Request().Context(), sub, model.WakeQuery{Limit: 1})
	if err != nil {
		return err
	}
	status := sluice.Status{
		State: sub.State, Reason: sub.Reason, Breaker: sluice.BreakerClosed, ParkedLanes: []sluice.Parked{}, Consumers: page.Counts,
	}
	if status.Consumers == nil {
		status.Consumers = map[sluice.WakeState]int{}
	}
	return c.JSON(http.StatusOK, status)
}

// ended removes the wake consumers of a deleted stream. It runs even if the caller disconnects, and
// again if the stream was deleted before, because that may have been interrupted. Other errors are
// returned unchanged.
func (s *Server) ended(ctx context.Context, namespace string, path sluice.Path, deleted error) error {
	switch sluice.CodeOf(deleted) { //nolint:exhaustive // the other codes go to the caller
	case "", sluice.NotFound, sluice.StreamGone:
	default:
		return deleted
	}
	if s.opts.Wakes == nil {
		return deleted
	}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), endingLimit)
	defer cancel()
	return cmp.Or(s.opts.Wakes.Ended(ctx, namespace, path), deleted)
}
