package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/access"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Wakes are the wake consumers of subscriptions of mode wake (S1).
type Wakes interface {
	// Admit refuses a callback whose token is not good for its consumer, with the codes of Call, before its body is
	// read: strangers' bodies cost no memory.
	Admit(ctx context.Context, namespace, consumerID, token string) error
	// Call takes a callback: the raw bearer token, "" if there is none, and the raw body. A refusal is an error
	// with one of the codes sluice.Wake…; with WakeTokenExpired the answer's token may be a new one. Other codes
	// are the server's own.
	Call(ctx context.Context, namespace, consumerID, token string, body []byte) (sluice.WakeAnswer, error)
	// Consumers returns a page of a subscription's consumers, by path.
	Consumers(ctx context.Context, sub *sluice.Subscription, q sluice.WakeQuery) (sluice.WakePage, error)
	// Consumer returns the one of a path, with the ends of its streams and the attempts of its last wake. Code NotFound.
	Consumer(ctx context.Context, sub *sluice.Subscription, path sluice.Path) (sluice.WakeConsumer, error)
	// Ended is called after a stream was deleted: its consumers are removed when it returns (S1-122). It may be
	// called again, and of a path on which there is a stream anew, which it has to see for itself.
	Ended(ctx context.Context, namespace string, path sluice.Path) error
}

// callbackRoute is where woken workers report. Nobody has to say who it is: the token of the notice says what it may.
const callbackRoute = "/callback/:ns/:consumer"

// maxCallback bounds a callback: of as many streams as a consumer may follow, paths and offsets.
const maxCallback = 2 << 20

// endingLimit bounds how long the consumers of a stream that was deleted may take to be removed.
const endingLimit = 10 * time.Second

// newTokenKey is where a callback that failed keeps the token that it may be repeated with.
const newTokenKey = "token"

// called is the answer to a callback (S1-82).
type called struct {
	OK bool `json:"ok"`
	sluice.WakeAnswer
}

// refused is the answer to a callback that failed, whatever the reason (S1-92).
type refused struct {
	OK    bool         `json:"ok"`
	Error refusedError `json:"error"`
	Token string       `json:"token,omitempty"`
}

type refusedError struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
}

// callback takes what a woken worker reports. What is wrong with a token is not counted as what is wrong with the
// tokens of the API: a callback token is a MAC, which nobody guesses, and many workers share an address, of whom
// one that is late, or was replaced, must not silence the others.
func (s *Server) callback(c echo.Context) error {
	namespace, err := paramOf(c, "ns")
	if err != nil {
		return err
	}
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	ctx, consumer, token := c.Request().Context(), calledBy(c.Request().URL), bearer(c.Request().Header)
	if err := wakes.Admit(ctx, namespace, consumer, token); err != nil {
		return err
	}
	data, err := body(c)
	if err != nil {
		return err
	}
	answer, err := wakes.Call(ctx, namespace, consumer, token, data)
	if err != nil {
		c.Set(newTokenKey, answer.Token)
		return err
	}
	if answer.Streams == nil {
		answer.Streams = []sluice.WakeAcked{}
	}
	return c.JSON(http.StatusOK, called{true, answer})
}

// calledBy returns the consumer's id in the address of a callback, as it came: no slash in it divides anything,
// neither a %2F nor one that somebody on the way has decoded (S1-15).
func calledBy(u *url.URL) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/callback/"), "/")
	return rest
}

// bearer returns the token that a request shows, "" if it shows none.
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func isCallback(c echo.Context) bool { return c.Path() == callbackRoute }

// refusal returns the answer to a callback that failed.
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
		return nil, sluice.Errorf(sluice.Unavailable, "this server wakes nobody at the moment")
	}
	return s.opts.Wakes, nil
}

// woken is owned for what there is in mode wake only.
func woken(s *Server, c echo.Context) error {
	if err := owned(s, c); err != nil {
		return err
	}
	if sub := subscription(c); sub.Mode != sluice.Wake {
		return sluice.Errorf(sluice.Unprocessable, "a subscription of mode %s has no consumers; see its deliveries: GET /v1/subscriptions/%s/deliveries", sub.Mode, sub.ID)
	}
	return nil
}

// delivering is owned for what there is in all modes but wake, in which no event is delivered. Instead says what
// is of use there.
func delivering(instead string) demand {
	return func(s *Server, c echo.Context) error {
		if err := owned(s, c); err != nil {
			return err
		}
		if subscription(c).Mode == sluice.Wake {
			return sluice.Errorf(sluice.Unprocessable, "a subscription of mode wake is sent notices, not events; %s", instead)
		}
		return nil
	}
}

// What is of use in mode wake instead of what is not there.
const (
	insteadOfLooking  = "GET …/consumers shows how its consumers are doing, GET …/consumers/{path} the attempts of the last notice"
	insteadOfMoving   = "its workers move offsets with callbacks (acks), and read streams from wherever they like"
	insteadOfReading  = "read the streams from the offsets of a notice: GET /streams/{namespace}/{path}?offset="
	insteadOfTesting  = "append to a stream that its pattern matches, and a notice is sent"
	insteadOfRetrying = "a notice is sent until somebody takes it; POST …/resume lets a paused subscription go on"
)

// consumerList is one page of wake consumers.
type consumerList struct {
	Consumers  []sluice.WakeConsumer    `json:"consumers"`
	NextCursor string                   `json:"next_cursor"`
	Counts     map[sluice.WakeState]int `json:"counts"`
}

// listConsumers lists a subscription's wake consumers by path.
func (s *Server) listConsumers(c echo.Context) error {
	if err := onlyParams(c, "state", "limit", "cursor"); err != nil {
		return err
	}
	most, err := limit(c)
	if err != nil {
		return err
	}
	if err := oneOf(c, "state", string(sluice.WakeIdle), string(sluice.WakeWaking), string(sluice.WakeLive), string(sluice.WakeRemoved)); err != nil {
		return err
	}
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	sub := subscription(c)
	page, err := wakes.Consumers(c.Request().Context(), sub, sluice.WakeQuery{
		State: sluice.WakeState(c.QueryParam("state")), After: c.QueryParam("cursor"), Limit: most,
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
	name, err := paramOf(c, "consumer")
	if err != nil {
		return err
	}
	sub := subscription(c)
	path, ok := consumerPath(sub.ID, name)
	if !ok || !s.knows(c, sub, path) {
		return access.Concealed()
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

// consumerPath returns the path of a consumer that is named by its path or its id, of which the path may have
// been decoded on the way or not: no path begins otherwise than with a slash. ok is false if it is none of the
// subscription's.
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

// visibleOf returns a consumer without the streams that the caller may not know of: a worker subscribes to
// whatever it names (S1-99).
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

// wakeStatus is how a subscription of mode wake is doing: nothing of it waits but its consumers.
func (s *Server) wakeStatus(c echo.Context, sub *sluice.Subscription) error {
	wakes, err := s.wakes()
	if err != nil {
		return err
	}
	page, err := wakes.Consumers(c.Request().Context(), sub, sluice.WakeQuery{Limit: 1})
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

// ended tells the wake consumers that a stream is no more. It is done whatever becomes of the caller, and again if
// the stream was deleted before: somebody may have been interrupted between the two. Others of its errors stand.
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
