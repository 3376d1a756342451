package httpapi

import (
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// expressionTurn waits until no other request of the accountable principal evaluates an expression
// on the latest events of a namespace's paths. Each evaluation may cost up to stateCost, and a
// principal may send any number of requests at once. Operators do not wait. It returns the
// context's error if that ends first.
func (s *Server) expressionTurn(c echo.Context, namespace string) (done func(), err error) {
	who := httpkit.Caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return func() {}, nil
	}
	return s.expressions.Take(c.Request().Context(), s.opts.Access.Answers(who, namespace, time.Now()))
}

// payer returns the principal that is charged for the expressions of a request: the accountable
// one; "" for an operator.
func (s *Server) payer(c echo.Context, namespace string) string {
	who := httpkit.Caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return ""
	}
	return string(s.opts.Access.Answers(who, namespace, time.Now()))
}

// oneEach allows each principal one operation at a time. It is used for batches of subscriptions,
// and for trials: dry runs of replays and watches, which read thousands of events.
type oneEach struct {
	mu      sync.Mutex
	running map[sluice.Principal]struct{}
}

// enterTrial starts a trial of the caller in a namespace, which ends with leave. Code
// QuotaExceeded, with retry_after, if the accountable principal already runs one; operators are not
// limited.
func (s *Server) enterTrial(c echo.Context, namespace string) (leave func(), err error) {
	who := httpkit.Caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return func() {}, nil
	}
	return s.trials.enter(s.opts.Access.Answers(who, namespace, time.Now()), "dry run")
}

// enter begins an operation, which ends with leave. Code QuotaExceeded, with retry_after, if the
// principal already has one in progress.
func (t *oneEach) enter(who sluice.Principal, what string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, running := t.running[who]; running {
		return nil, sluice.Errorf(sluice.QuotaExceeded, "%s has a %s in progress, and may have one at a time; retry when it has ended", who, what).With("retry_after", 1)
	}
	if t.running == nil {
		t.running = map[sluice.Principal]struct{}{}
	}
	t.running[who] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, who)
	}, nil
}
