package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// namespaceRequest is the body of a PUT of a namespace.
type namespaceRequest struct {
	Description string           `json:"description"`
	Retention   sluice.Retention `json:"retention"`
	DedupWindow sluice.Duration  `json:"dedup_window"`
	Quota       sluice.Quota     `json:"quota"`
	Label       *sluice.Label    `json:"label"` // absent: unchanged
	Catalogue   sluice.Catalogue `json:"catalogue"`
}

// putNamespace answers PUT /v1/namespaces/{ns} for admins: 201 for a new namespace, else 200. All
// settings are replaced except an absent label. If-Match fences it: RevisionMismatch. A shorter
// retention deletes events.
func (s *Server) putNamespace(c echo.Context) error {
	var req namespaceRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	ns := sluice.Namespace{
		Name: c.Param("ns"), Description: req.Description, Retention: req.Retention, DedupWindow: req.DedupWindow,
		Quota: req.Quota, Catalogue: req.Catalogue, Revision: revision,
	}
	if err := ns.Validate(); err != nil {
		return err
	}
	if req.Label != nil {
		if err := req.Label.Check(); err != nil {
			return err
		}
		ns.Label = req.Label
	}
	stored, created, err := s.opts.Namespaces.PutNamespace(c.Request().Context(), ns, httpkit.By(c))
	if err != nil {
		return err
	}
	httpkit.SetETag(c, stored.Revision)
	stored = s.shownNamespace(c, stored)
	if created {
		return c.JSON(http.StatusCreated, stored)
	}
	return c.JSON(http.StatusOK, stored)
}

// shownNamespace returns a namespace as the caller may see it: with its label, which is stored with
// the permissions, and with its usage if the caller may read the whole namespace.
func (s *Server) shownNamespace(c echo.Context, ns sluice.Namespace) sluice.Namespace {
	if s.rights.Require(c, sluice.VerbRead, authz.Target{Namespace: ns.Name}) != nil {
		ns.Usage = nil
	}
	if s.opts.Authority != nil {
		label := s.opts.Authority.Label(ns.Name)
		ns.Label = &label
	}
	return ns
}

// getNamespace answers GET /v1/namespaces/{ns} for callers that may know that it exists.
func (s *Server) getNamespace(c echo.Context) error {
	ns, err := s.opts.Namespaces.Namespace(c.Request().Context(), c.Param("ns"))
	if err != nil {
		return err
	}
	httpkit.SetETag(c, ns.Revision)
	return c.JSON(http.StatusOK, s.shownNamespace(c, ns))
}

// deleteNamespace answers DELETE /v1/namespaces/{ns} for admins. The grants end first, then all
// that sends events is removed, then the log; it can be repeated after an error. Codes NotFound;
// Conflict for the default one.
func (s *Server) deleteNamespace(c echo.Context) error {
	if err := s.opts.Namespaces.DeleteNamespace(c.Request().Context(), c.Param("ns"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// namespaceList is one page of namespaces.
type namespaceList struct {
	Namespaces []sluice.Namespace `json:"namespaces"`
	NextCursor string             `json:"next_cursor"`
}

// listNamespaces lists namespaces, newest first; the cursor is the name of the last one on the
// previous page.
func (s *Server) listNamespaces(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	all, err := s.opts.Namespaces.Namespaces(c.Request().Context())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(ns sluice.Namespace) bool { return s.rights.Sees(c, ns.Name) != nil })
	for i := range all {
		all[i] = s.shownNamespace(c, all[i])
	}
	slices.SortFunc(all, func(a, b sluice.Namespace) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.Name, a.Name))
	})
	page, next, err := httpkit.Paginate(p, all, func(one *sluice.Namespace) string { return one.Name })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, namespaceList{page, next})
}
