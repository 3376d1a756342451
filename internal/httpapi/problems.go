package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/problem"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Problems groups failures of deliveries.
type Problems interface {
	// List returns a page of the problems. Code InvalidRequest for an invalid cursor.
	List(ctx context.Context, q problem.Query) (problem.Page, error)
	// Get returns a problem. Code NotFound.
	Get(ctx context.Context, id string) (problem.Found, error)
	// Change changes a problem. Codes InvalidRequest; NotFound; Conflict if it is resolved.
	Change(ctx context.Context, id string, c sluice.ProblemChange, by string) error
}

// problemList is one page of problems.
type problemList struct {
	Problems   []sluice.Problem            `json:"problems"`
	Counts     map[sluice.ProblemState]int `json:"counts"` // of all that the caller may see, by state
	NextCursor string                      `json:"next_cursor"`
}

// listProblems lists the problems of the subscriptions that the caller manages. It answers GET
// /v1/problems: the open ones first, and of one state the oldest first.
func (s *Server) listProblems(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	q := problem.Query{
		Namespace: c.QueryParam("namespace"), Subscription: c.QueryParam("subscription"), State: sluice.ProblemState(c.QueryParam("state")),
		Limit: p.Limit, Cursor: p.Cursor,
	}
	if q.State != "" && !slices.Contains(sluice.ProblemStates(), q.State) {
		return sluice.Errorf(sluice.InvalidRequest, "state %q: use one of %v", q.State, sluice.ProblemStates()).With("field", "state")
	}
	if s.opts.Problems == nil {
		return noProblems()
	}
	q.Visible = func(sub *sluice.Subscription) bool { return s.owns(c, sub) == nil }
	page, err := s.opts.Problems.List(c.Request().Context(), q)
	if err != nil {
		return err
	}
	list := problemList{Problems: make([]sluice.Problem, len(page.Problems)), Counts: page.Counts, NextCursor: page.Next}
	for i := range page.Problems {
		list.Problems[i] = s.shownProblem(c, &page.Problems[i])
	}
	return c.JSON(http.StatusOK, list)
}

func noProblems() error {
	return sluice.Errorf(sluice.Unavailable, "this server does not support problems of subscriptions")
}

// shownProblem returns a problem as the caller may see it. The answer of an endpoint may repeat the
// request, so it is left out unless the caller may see the event.
func (s *Server) shownProblem(c echo.Context, f *problem.Found) sluice.Problem {
	p := f.Problem
	if p.Answer != "" && !httpkit.Caller(c).Unbounded() && (!s.isOwner(c, f.Sub) || !s.seesAt(c, f)) {
		p.Answer = ""
	}
	return p
}

// seesAt reports whether the caller may see the event of a problem.
func (s *Server) seesAt(c echo.Context, f *problem.Found) bool {
	ev, err := s.opts.Log.EventAt(c.Request().Context(), f.Sub.Namespace, f.Seq)
	return err == nil && s.seesThis(c, &ev) == nil
}

// managedProblem returns the problem in the path if the caller manages its subscription. Other
// problems look missing.
func (s *Server) managedProblem(c echo.Context) (problem.Found, error) {
	if s.opts.Problems == nil {
		return problem.Found{}, noProblems()
	}
	id, err := httpkit.Param(c, "problem")
	if err != nil {
		return problem.Found{}, err
	}
	f, err := s.opts.Problems.Get(c.Request().Context(), id)
	if err == nil {
		err = s.owns(c, f.Sub)
	}
	if sluice.CodeOf(err) == sluice.SubscriptionMissing || sluice.CodeOf(err) == sluice.Forbidden {
		err = sluice.Errorf(sluice.NotFound, "problem %q not found, or not visible to you", id)
	}
	return f, err
}

// getProblem returns a problem.
func (s *Server) getProblem(c echo.Context) error {
	f, err := s.managedProblem(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.shownProblem(c, &f))
}

// patchProblem acknowledges, ignores or reopens a problem, or changes its note. It answers PATCH
// /v1/problems/{problem} for callers that manage the subscription. Codes NotFound; Conflict if it
// is resolved and the change would acknowledge or reopen it.
func (s *Server) patchProblem(c echo.Context) error {
	var change sluice.ProblemChange
	if err := httpkit.Bind(c, &change); err != nil { // first: the caller may lose the right while the body arrives
		return err
	}
	f, err := s.managedProblem(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := s.opts.Problems.Change(ctx, f.ID, change, httpkit.By(c)); err != nil {
		return err
	}
	if f, err = s.opts.Problems.Get(ctx, f.ID); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.shownProblem(c, &f))
}
