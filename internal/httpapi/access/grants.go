package access

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// whoami returns the caller and its grant. With wait, it responds when the wait is over, or as soon
// as the grant has ended, so that a page learns of the end at once. It answers GET /v1/whoami. If
// the grant ends, the code is Unauthenticated, with the reason in the details.
func (s *Handler) whoami(c echo.Context) error {
	wait, err := httpkit.Wait(c)
	if err != nil {
		return err
	}
	if err := s.stays(c, wait); err != nil {
		return err
	}
	who := httpkit.Caller(c)
	answer := struct {
		Principal sluice.Principal `json:"principal"`
		Grant     *sluice.Grant    `json:"grant,omitempty"` // nil for root
	}{Principal: who.Principal}
	if !who.Unbounded() {
		g, err := s.needs.Authority.Grant(who, who.Grant)
		if err != nil {
			return err
		}
		answer.Grant = &g
	}
	return c.JSON(http.StatusOK, answer)
}

// stays waits, and returns an error if the caller's grant ends meanwhile.
func (s *Handler) stays(c echo.Context, wait time.Duration) error {
	ctx, cancel := s.needs.UntilEnd(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, wait)
	defer end()
	<-ctx.Done()
	return authz.Lost(ctx)
}

// mintGrant issues a grant: any grant for root, otherwise a part of the caller's own. It answers
// POST /v1/grants with 201. Only this response has the token. A repetition without an
// Idempotency-Key issues a second grant. Codes CapabilityRequired for more than the caller has;
// QuotaExceeded.
func (s *Handler) mintGrant(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	var wish grants.Wish
	if err := httpkit.Bind(c, &wish); err != nil {
		return err
	}
	minted, err := a.Mint(c.Request().Context(), httpkit.Caller(c), wish)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/grants/"+minted.ID)
	httpkit.SetETag(c, minted.Revision)
	return c.JSON(http.StatusCreated, minted)
}

// grantList is one page of grants.
type grantList struct {
	Grants     []sluice.Grant `json:"grants"`
	NextCursor string         `json:"next_cursor"`
}

// listGrants lists the grants visible to the caller, newest first, without their tokens. It answers
// GET /v1/grants.
func (s *Handler) listGrants(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "state", "active", "all"); err != nil {
		return err
	}
	page, next := a.Grants(httpkit.Caller(c), grants.GrantQuery{
		Principal: sluice.Principal(c.QueryParam("principal")), Namespace: c.QueryParam("namespace"),
		Active: c.QueryParam("state") == "active", After: p.Cursor, Limit: p.Limit,
	})
	if page == nil {
		page = []sluice.Grant{}
	}
	return c.JSON(http.StatusOK, grantList{page, next})
}

// getGrant answers GET /v1/grants/{grant}, without the token. Code NotFound, also for one that the
// caller may not see.
func (s *Handler) getGrant(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	g, err := a.Grant(httpkit.Caller(c), c.Param("grant"))
	if err != nil {
		return err
	}
	httpkit.SetETag(c, g.Revision)
	return c.JSON(http.StatusOK, g)
}

// renewGrant issues a new token for a grant and optionally a new expiry. It answers POST
// /v1/grants/{grant}/renew. The previous token is invalid then. Codes NotFound; Forbidden; Conflict
// if it was revoked; CapabilityRequired.
func (s *Handler) renewGrant(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	var req struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	minted, err := a.Renew(c.Request().Context(), httpkit.Caller(c), c.Param("grant"), req.ExpiresAt)
	if err != nil {
		return err
	}
	httpkit.SetETag(c, minted.Revision)
	return c.JSON(http.StatusOK, minted)
}

// revokeGrant revokes a grant. It responds once every replica enforces the revocation. It answers
// POST /v1/grants/{grant}/revoke (S0-57, S0-58), and ends the derived grants too. It is idempotent.
// Codes NotFound; Unavailable if a replica did not confirm: the revocation is stored, and a
// repetition waits again.
func (s *Handler) revokeGrant(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	g, err := a.Revoke(c.Request().Context(), httpkit.Caller(c), c.Param("grant"))
	if err != nil {
		return err
	}
	httpkit.SetETag(c, g.Revision)
	return c.JSON(http.StatusOK, g)
}

// verifyToken verifies a token, or a grant that the caller may see, and its permissions. It answers
// POST /v1/grants/verify for every authenticated caller. An invalid token is a result and no error.
// Code NotFound for a grant that the caller may not see.
func (s *Handler) verifyToken(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	var req struct {
		Token  string         `json:"token"`
		Grant  string         `json:"grant"`
		Verb   sluice.Verb    `json:"verb"`
		Object *sluice.Object `json:"object"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if (req.Token == "") == (req.Grant == "") {
		return sluice.Errorf(sluice.InvalidRequest, "send either token or grant").With("field", "token")
	}
	if (req.Verb == "") != (req.Object == nil) {
		return sluice.Errorf(sluice.InvalidRequest, "verb and object must be sent together").With("field", "verb")
	}
	ctx := c.Request().Context()
	q := grants.Question{By: httpkit.Caller(c), Verb: req.Verb, Object: req.Object}
	var found grants.Verification
	if req.Grant != "" {
		found, err = a.VerifyGrant(ctx, req.Grant, q)
	} else {
		found, err = a.Verify(ctx, req.Token, q)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, found)
}
