package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Tombstones erases paths from a namespace's log.
type Tombstones interface {
	// Erase deletes all events on the path. When it returns, no replica sends them any more. Code
	// NotFound for the namespace.
	Erase(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path) (sluice.Tombstone, error)
	// Tombstones returns the tombstones of a namespace, by path.
	Tombstones(namespace string) []sluice.Tombstone
}

// acl is a principal's entries. If there is only one, the top-level fields repeat it.
type acl struct {
	sluice.ACL

	Tier    *sluice.Tier   `json:"tier,omitempty"`
	Pattern sluice.Pattern `json:"pattern,omitempty"`
}

func shownACL(a sluice.ACL) acl {
	shown := acl{ACL: a}
	if len(a.Entries) == 1 {
		shown.Tier, shown.Pattern = &a.Entries[0].Tier, a.Entries[0].Pattern
	}
	return shown
}

func (s *Server) listACL(c echo.Context) error {
	if _, err := s.opts.Namespaces.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
		return err
	}
	a, err := s.authority()
	if err != nil {
		return err
	}
	all := []acl{}
	for _, one := range a.ACLs(c.Param("ns")) {
		all = append(all, shownACL(one))
	}
	return c.JSON(http.StatusOK, map[string][]acl{"acl": all})
}

func (s *Server) getACL(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	one, err := a.ACL(c.Param("ns"), p)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shownACL(one))
}

// putACL sets the entries of a principal: {"tier","pattern"}, or {"entries":[…]} for several.
func (s *Server) putACL(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	var req struct {
		sluice.Access

		Entries []sluice.Access `json:"entries"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	if _, err := s.opts.Namespaces.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
		return err
	}
	one := sluice.ACL{Namespace: c.Param("ns"), Principal: p, Entries: req.Entries}
	switch {
	case req.Tier != sluice.TierNone && req.Entries != nil:
		return sluice.Errorf(sluice.InvalidRequest, "send tier and pattern, or entries, not both").With("field", "entries")
	case req.Entries == nil:
		one.Entries = []sluice.Access{req.Access}
	}
	stored, err := a.PutACL(c.Request().Context(), httpkit.Caller(c), one)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, shownACL(stored))
}

func (s *Server) deleteACL(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	if err := a.DeleteACL(c.Request().Context(), httpkit.Caller(c), c.Param("ns"), p); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// principalOf returns the principal in the request's path.
func principalOf(c echo.Context) (sluice.Principal, error) {
	text := c.Param("principal")
	if c.Request().URL.RawPath != "" {
		var err error
		if text, err = url.PathUnescape(text); err != nil {
			return "", sluice.Errorf(sluice.InvalidRequest, "the URL has an invalid percent-encoding")
		}
	}
	return sluice.ParsePrincipal(text)
}

func (s *Server) listPrincipals(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string][]sluice.Profile{"principals": a.Profiles()})
}

func (s *Server) getPrincipal(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	profile, err := a.Profile(p)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, profile)
}

// putPrincipal sets the clearance of a principal.
func (s *Server) putPrincipal(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	var req struct {
		Clearance   sluice.Label `json:"clearance"`
		Description string       `json:"description"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	profile, err := a.PutProfile(c.Request().Context(), httpkit.Caller(c), sluice.Profile{Principal: p, Clearance: req.Clearance, Description: req.Description})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, profile)
}

func (s *Server) deletePrincipal(c echo.Context) error {
	a, err := s.authority()
	if err != nil {
		return err
	}
	p, err := principalOf(c)
	if err != nil {
		return err
	}
	if err := a.DeleteProfile(c.Request().Context(), httpkit.Caller(c), p); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// erase permanently erases everything on a path.
func (s *Server) erase(c echo.Context) error {
	if s.opts.Tombstones == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support tombstones")
	}
	var req struct {
		Path string `json:"path"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	path, err := sluice.StoredPath(req.Path)
	if err != nil {
		return err
	}
	if path.Reserved() {
		return sluice.Errorf(sluice.InvalidRequest, "path %q is a system path and cannot be erased", path).With("field", "path")
	}
	t, err := s.opts.Tombstones.Erase(c.Request().Context(), httpkit.Caller(c), c.Param("ns"), path)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, t)
}

func (s *Server) listTombstones(c echo.Context) error {
	if s.opts.Tombstones == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support tombstones")
	}
	return c.JSON(http.StatusOK, map[string][]sluice.Tombstone{"tombstones": s.opts.Tombstones.Tombstones(c.Param("ns"))})
}
