package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Audit reads the ledger.
type Audit interface {
	// Entries returns entries, newest first, and the position from which a next query continues
	// with older ones; 0: there are none.
	Entries(ctx context.Context, q model.LedgerQuery) ([]sluice.LedgerEntry, uint64, error)
}

// auditList is one page of the ledger.
type auditList struct {
	Entries    []sluice.LedgerEntry `json:"entries"`
	NextCursor string               `json:"next_cursor"`
}

// listAudit lists the ledger's entries, newest first. It answers GET /v1/audit for admins of the
// namespace in the query, or of everything without one (S4-70). A page may be shorter than the
// limit and not the last.
func (s *Handler) listAudit(c echo.Context) error {
	q, err := auditQuery(c)
	if err != nil {
		return err
	}
	entries, next, err := s.opts.Audit.Entries(c.Request().Context(), q)
	if err != nil {
		return err
	}
	list := auditList{Entries: entries, NextCursor: httpkit.Next(next)}
	if list.Entries == nil {
		list.Entries = []sluice.LedgerEntry{}
	}
	return c.JSON(http.StatusOK, list)
}

// auditQuery parses the parameters. The cursor is a position in the ledger. Code InvalidRequest.
func auditQuery(c echo.Context) (q model.LedgerQuery, err error) {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	q.Namespace, q.Resource, q.Action, q.Actor = c.QueryParam("namespace"), c.QueryParam("resource"), c.QueryParam("action"), c.QueryParam("actor")
	if q.Namespace != "" {
		if err = sluice.CheckNamespaceName(q.Namespace); err != nil {
			return q, err
		}
	}
	if q.Action != "" {
		if err = model.CheckAction(q.Action); err != nil {
			return q, err
		}
	}
	if q.Since, err = httpkit.TimeParam(c, "since"); err != nil {
		return q, err
	}
	if q.Until, err = httpkit.TimeParam(c, "until"); err != nil {
		return q, err
	}
	q.Limit = p.Limit
	q.Before, err = p.Position()
	return q, err
}
