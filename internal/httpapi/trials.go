package httpapi

import (
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// expressionTurn waits until no other request of the principal that answers for the caller evaluates an expression on the
// last events of a namespace's paths: one may cost stateCost, and a principal may send any number at once. An operator does
// not wait. It returns the error of the request's context if that ends before.
func (s *Server) expressionTurn(c echo.Context, namespace string) (done func(), err error) {
	who := caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return func() {}, nil
	}
	return s.expressions.Take(c.Request().Context(), s.opts.Access.Answers(who, namespace, time.Now()))
}

// trials are the principals that have something tried: a dry run of a replay, or a watch. Each has one at a time, for a
// trial looks at thousands of events.
type trials struct {
	mu      sync.Mutex
	running map[sluice.Principal]struct{}
}

// enterTrial begins a trial of the caller's in a namespace, which ends with leave. Code QuotaExceeded, with retry_after, if
// there is one already of the principal that answers for the caller; an operator has any number.
func (s *Server) enterTrial(c echo.Context, namespace string) (leave func(), err error) {
	who := caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return func() {}, nil
	}
	return s.trials.enter(s.opts.Access.Answers(who, namespace, time.Now()))
}

func (t *trials) enter(who sluice.Principal) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, running := t.running[who]; running {
		return nil, sluice.Errorf(sluice.QuotaExceeded, "%s has a dry run under way, and may have one at a time; try again when it has ended", who).With("retry_after", 1)
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
