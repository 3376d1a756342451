package access

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ACL is a principal's entries. If there is only one, the top-level fields repeat it.
type ACL struct {
	sluice.ACL

	Tier    *sluice.Tier   `json:"tier,omitempty"`
	Pattern sluice.Pattern `json:"pattern,omitempty"`
}

// shownACL returns a principal's entries as the API shows them.
func shownACL(a sluice.ACL) ACL {
	shown := ACL{ACL: a}
	if len(a.Entries) == 1 {
		shown.Tier, shown.Pattern = &a.Entries[0].Tier, a.Entries[0].Pattern
	}
	return shown
}

// listACL answers GET /v1/namespaces/{ns}/acl for admins, ordered by principal, without pages. An
// empty list is in force if it ever had an entry. Code NotFound if the namespace does not exist.
func (s *Handler) listACL(c echo.Context) error {
	if _, err := s.needs.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
		return err
	}
	a, err := s.Authority()
	if err != nil {
		return err
	}
	all := []ACL{}
	for _, one := range a.ACLs(c.Param("ns")) {
		all = append(all, shownACL(one))
	}
	return c.JSON(http.StatusOK, map[string][]ACL{"acl": all})
}

// getACL answers GET …/acl/{principal} for admins. Code NotFound if the principal has no entry.
func (s *Handler) getACL(c echo.Context) error {
	a, err := s.Authority()
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

// putACL sets the entries of a principal: {"tier","pattern"}, or {"entries":[…]} for several. It
// answers PUT …/acl/{principal} for admins, always with 200. The first entry puts the list in force
// for good. Subscriptions that lose access are cancelled (S0-64). Codes NotFound if the namespace
// does not exist; Conflict if it would lose its last admin.
func (s *Handler) putACL(c echo.Context) error {
	a, err := s.Authority()
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
	if _, err := s.needs.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
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

// deleteACL answers DELETE …/acl/{principal} for admins with 204. Codes NotFound, also for a
// repetition; Conflict for the last admin.
func (s *Handler) deleteACL(c echo.Context) error {
	a, err := s.Authority()
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

// principalOf returns the principal in the request's path. A needless escape, as in user%3Aann, is
// decoded here, because the router leaves it as it is. Code InvalidRequest.
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

// listPrincipals answers GET /v1/principals for admins of everything, ordered by name, without
// pages. A principal that is not listed has the clearance PUBLIC.
func (s *Handler) listPrincipals(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string][]sluice.Profile{"principals": a.Profiles()})
}

// getPrincipal answers GET /v1/principals/{principal}. Code NotFound for a principal with neither a
// clearance above PUBLIC nor a description.
func (s *Handler) getPrincipal(c echo.Context) error {
	a, err := s.Authority()
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

// putPrincipal sets the clearance of a principal. It answers PUT /v1/principals/{principal} for
// admins of everything. Clearance and description are both replaced. A lower clearance cancels
// subscriptions that need the old one.
func (s *Handler) putPrincipal(c echo.Context) error {
	a, err := s.Authority()
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

// deletePrincipal answers DELETE /v1/principals/{principal}: the clearance is PUBLIC then. Code
// NotFound, also for a repetition.
func (s *Handler) deletePrincipal(c echo.Context) error {
	a, err := s.Authority()
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
