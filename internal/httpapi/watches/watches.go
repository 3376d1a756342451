package watches

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Request is the body of a PUT of a watch.
type Request struct {
	Pattern     sluice.Pattern  `json:"pattern"`
	Filter      sluice.Filter   `json:"filter"`
	Trigger     sluice.Trigger  `json:"trigger"`
	Cooldown    sluice.Duration `json:"cooldown"`
	For         sluice.Duration `json:"for"`
	Action      sluice.Action   `json:"action"`
	Description string          `json:"description"`
}

// putWatch creates a watch for a caller that may read its pattern and publish its action; both
// rights are checked again whenever the watch reads or publishes. It answers PUT
// /v1/namespaces/{ns}/watches/{id}: 201 for a new one, else 200. An equal watch keeps its state;
// another one starts anew. Codes Conflict if the caller does not manage the watch that has the ID;
// NotFound for the namespace; QuotaExceeded.
func (s *Handler) putWatch(c echo.Context) error {
	if s.needs.Watches == nil {
		return noWatches()
	}
	var req Request
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	id, err := httpkit.Param(c, "id")
	if err != nil {
		return err
	}
	who := httpkit.Caller(c)
	w := sluice.Watch{
		ID: id, Namespace: c.Param("ns"), Pattern: req.Pattern, Filter: req.Filter, Trigger: cmp.Or(req.Trigger, sluice.TriggerEdge),
		Cooldown: req.Cooldown, For: req.For, Action: req.Action, Description: req.Description,
		Creator: sluice.Creator{CreatedBy: who.Principal, Grant: who.Binding()},
	}
	if err := w.Validate(); err != nil {
		return err
	}
	w.Pattern, _ = sluice.ParsePattern(string(w.Pattern)) // already validated
	if err := s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: w.Namespace, Pattern: w.Pattern}); err != nil {
		return err
	}
	if err := s.needs.Rights.Require(c, sluice.VerbPublish, authz.Target{Namespace: w.Namespace, Path: w.Action.Path}); err != nil {
		return err
	}
	stored, created, err := s.needs.Watches.Put(c.Request().Context(), w, func(old *sluice.Watch) error {
		if owns, err := s.ownsInstruction(c, old.Namespace, old.Creator); owns || err != nil {
			return err
		}
		return sluice.Errorf(sluice.Conflict, "the id %q is in use; choose another one", id)
	})
	if err != nil {
		return err
	}
	if created {
		return c.JSON(http.StatusCreated, stored)
	}
	return c.JSON(http.StatusOK, stored)
}

// trialRequest is a watch without its action, which is not performed.
type trialRequest struct {
	Pattern  sluice.Pattern  `json:"pattern"`
	Filter   sluice.Filter   `json:"filter"`
	Trigger  sluice.Trigger  `json:"trigger"`
	Cooldown sluice.Duration `json:"cooldown"`
	For      sluice.Duration `json:"for"`
	Since    uint64          `json:"since"`
}

// tryWatch simulates a watch of the caller. It answers POST …/watches/test over the events after
// since. Nothing is published or stored. A principal has one trial at a time: QuotaExceeded. Code
// WindowExceeded.
func (s *Handler) tryWatch(c echo.Context) error {
	if s.needs.Watches == nil {
		return noWatches()
	}
	var req trialRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	w := sluice.Watch{
		ID: "test", Namespace: c.Param("ns"), Pattern: req.Pattern, Filter: req.Filter, Trigger: cmp.Or(req.Trigger, sluice.TriggerEdge),
		Cooldown: req.Cooldown, For: req.For, Action: sluice.Action{Path: "/test", Type: "test"},
	}
	if err := w.Validate(); err != nil {
		return err
	}
	w.Pattern, _ = sluice.ParsePattern(string(w.Pattern)) // already validated
	if err := s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: w.Namespace, Pattern: w.Pattern}); err != nil {
		return err
	}
	leave, err := s.needs.EnterTrial(c, w.Namespace)
	if err != nil {
		return err
	}
	defer leave()
	who := httpkit.Caller(c)
	is, err := s.needs.Watches.Try(c.Request().Context(), w, req.Since, func(ev *sluice.Event) bool {
		return s.needs.Rights.Index.Shows(who, sluice.VerbRead, ev, time.Now()) == model.Pass
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, is)
}

// watchOf returns the request's watch if the caller manages it; other watches look missing.
func (s *Handler) watchOf(c echo.Context) (sluice.Watch, error) {
	if s.needs.Watches == nil {
		return sluice.Watch{}, noWatches()
	}
	id, err := httpkit.Param(c, "id")
	if err != nil {
		return sluice.Watch{}, err
	}
	w, err := s.needs.Watches.Get(c.Request().Context(), c.Param("ns"), id)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return w, err
	}
	owns, unknown := s.ownsInstruction(c, c.Param("ns"), w.Creator)
	switch {
	case unknown != nil:
		return w, unknown
	case !owns:
		return w, authz.Concealed() // the same for a missing watch
	}
	return w, err
}

// ownsInstruction reports whether the caller manages a watch or an appointment: one that it
// created, or one of a namespace that it administers.
func (s *Handler) ownsInstruction(c echo.Context, namespace string, by sluice.Creator) (bool, error) {
	admin := s.needs.Rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: namespace})
	switch {
	case admin == nil:
		return true, nil
	case sluice.CodeOf(admin) == sluice.Unavailable:
		return false, admin
	}
	who := httpkit.Caller(c)
	return who.Principal == by.CreatedBy && s.needs.Rights.Same(c, by.Grant, namespace), nil
}

// getWatch answers GET …/watches/{id}. Code NotFound, also for a watch that the caller does not
// manage.
func (s *Handler) getWatch(c echo.Context) error {
	w, err := s.watchOf(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, w)
}

// deleteWatch answers DELETE …/watches/{id} with 204. Codes NotFound; Conflict after a concurrent
// change.
func (s *Handler) deleteWatch(c echo.Context) error {
	w, err := s.watchOf(c)
	if err != nil {
		return err
	}
	if err := s.needs.Watches.Delete(c.Request().Context(), w, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// watchList is one page of watches.
type watchList struct {
	Watches    []sluice.Watch `json:"watches"`
	NextCursor string         `json:"next_cursor"`
}

// listWatches lists the watches that the caller manages, newest first; the cursor is the ID of the
// last one on the previous page.
func (s *Handler) listWatches(c echo.Context) error {
	if s.needs.Watches == nil {
		return noWatches()
	}
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	all, err := s.ownWatches(c)
	if err != nil {
		return err
	}
	page, next, err := httpkit.Paginate(p, all, func(one *sluice.Watch) string { return one.ID })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, watchList{page, next})
}

// ownWatches returns the watches of a namespace that the caller manages, newest first.
func (s *Handler) ownWatches(c echo.Context) ([]sluice.Watch, error) {
	ctx := c.Request().Context()
	if _, err := s.needs.Namespace(ctx, c.Param("ns")); err != nil {
		return nil, err
	}
	all, err := s.needs.Watches.List(ctx, c.Param("ns"))
	if err != nil {
		return nil, err
	}
	own := []sluice.Watch{}
	for i := range all {
		owns, err := s.ownsInstruction(c, all[i].Namespace, all[i].Creator)
		if err != nil {
			return nil, err
		}
		if owns {
			own = append(own, all[i])
		}
	}
	slices.SortFunc(own, func(a, b sluice.Watch) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return own, nil
}

func noWatches() error {
	return sluice.Errorf(sluice.Unavailable, "this server does not support watches")
}
