package mirrors

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// observeTimeout bounds the reading of a page of changes (S3-42).
const observeTimeout = 30 * time.Second

// listChanges returns a page of the changes of a namespace (S3-40). It stores nothing: a source
// does not know its mirrors (S3-137). It answers GET /v1/namespaces/{ns}/observe. Items are in log
// order. There may be none while has_more is true; the next page begins after through_sequence.
// Codes NotFound; Unavailable.
func (s *Handler) listChanges(c echo.Context) error {
	q, depth, err := changeQuery(c)
	if err != nil {
		return err
	}
	page, err := s.changesOf(c, q, depth)
	if err != nil {
		return err
	}
	body, err := page.AppendJSON(nil)
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, body)
}

// changesOf returns a page of the changes of the request's namespace that the caller may see.
func (s *Handler) changesOf(c echo.Context, q model.ChangeQuery, depth sluice.Depth) (page sluice.ObservePage, err error) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), observeTimeout)
	defer cancel()
	ns := c.Param("ns")
	deletions := deletions{rights: s.needs.Rights, c: c, ns: ns, stones: s.needs.Tombstones}
	q.Visible = s.needs.Rights.Visible(c, sluice.VerbRead)
	if q.Visible != nil {
		q.Erased = deletions.shown
	}
	page, err = s.opts.Changes.Changes(ctx, ns, q)
	if err = cmp.Or(err, deletions.err); err != nil {
		return page, err
	}
	if page.Items, err = s.shownChanges(c, page.Items, depth); err != nil {
		return page, err
	}
	if s.needs.Label != nil {
		page.Label = s.needs.Label(ns)
	}
	if s.opts.Passed != nil {
		page.Passed, err = s.opts.Passed(ctx, ns)
	}
	return page, err
}

// changeQuery parses the parameters; since is exclusive, and the default depth is full.
func changeQuery(c echo.Context) (q model.ChangeQuery, depth sluice.Depth, err error) {
	if q.Limit, err = httpkit.Limit(c); err != nil {
		return q, "", err
	}
	since := c.QueryParam("since")
	if q.Since, err = strconv.ParseUint(cmp.Or(since, "0"), 10, 64); err != nil {
		return q, "", sluice.Errorf(sluice.InvalidRequest, "since %q: use a sequence, 0 for the beginning", since).With("field", "since")
	}
	depth, err = sluice.ParseDepth(cmp.Or(c.QueryParam("depth"), string(sluice.DepthFull)))
	return q, depth, err
}

// deletions decides which erased events the caller may know of: those that it was permitted to
// read.
type deletions struct {
	rights httpkit.Rights
	c      echo.Context
	ns     string
	stones Tombstones
	err    error // code Unavailable if it could not decide
}

// shown returns the erased paths on which the caller was permitted to read events with a label. If
// it was permitted to read the events of every path, every is true.
func (d *deletions) shown(label string) (paths []sluice.Path, every bool) {
	whole := d.rights.Require(d.c, sluice.VerbRead, authz.Target{Namespace: d.ns})
	switch {
	case sluice.CodeOf(whole) == sluice.Unavailable:
		d.err = whole
		return nil, false
	case whole == nil:
		return nil, d.shows("/any", label)
	}
	for _, stone := range d.stones.Tombstones(d.ns) {
		if d.shows(stone.Path, label) {
			paths = append(paths, stone.Path)
		}
	}
	return paths, false
}

// shows reports whether the caller was permitted to read events with a label on a path.
func (d *deletions) shows(path sluice.Path, label string) bool {
	ev := sluice.Event{Namespace: d.ns, Path: path}
	if label != "" {
		ev.Extensions = map[string]string{sluice.AttributeClassification: label}
	}
	ok, err := d.rights.Shows(d.c, sluice.VerbRead, &ev)
	d.err = cmp.Or(d.err, err)
	return ok
}

// shownChanges returns the changes that the caller may see, with as much data as the depth
// includes. It leaves out events that were erased, or access to which was revoked, while the page
// was read.
func (s *Handler) shownChanges(c echo.Context, items []sluice.Change, depth sluice.Depth) ([]sluice.Change, error) {
	kept := items[:0]
	for _, item := range items {
		if item.Op != sluice.OpDelete {
			ok, err := s.needs.Rights.Shows(c, sluice.VerbRead, &item.Event)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			s.reduce(&item.Event, depth)
		}
		kept = append(kept, item)
	}
	return kept, nil
}

// reduce removes the part of an event's data that a depth does not include (C10).
func (s *Handler) reduce(ev *sluice.Event, depth sluice.Depth) {
	switch depth {
	case sluice.DepthFull:
		return
	case sluice.DepthSummary:
		if s.opts.Summary != nil {
			ev.Data = s.opts.Summary(ev)
			ev.ContentType = "application/json"
			return
		}
	case sluice.DepthCatalog:
	}
	ev.Data = nil
}
