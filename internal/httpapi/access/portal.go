package access

import (
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Routes of the portal.
const (
	LinksRoute    = "/v1/portal/links"
	SessionsRoute = "/v1/portal/sessions"
	PortalPath    = "/portal"
)

// MaxSessionRequest is the maximum size of the body of a request that exchanges the code of a link,
// in bytes. Its sender is not authenticated.
const MaxSessionRequest = 1 << 10

const (
	maxPortalNext = 512 // bytes

	// Limits of links that are being opened at once: each costs a read of the store.
	opensAtOnce = 64
	opensOfOne  = 4 // from one address
)

// linkRequest is the body of a POST for a link.
type linkRequest struct {
	Grant     string           `json:"grant"`
	Principal sluice.Principal `json:"principal"`
	Object    *sluice.Object   `json:"object"`
	TTL       *sluice.Duration `json:"ttl"`
	LinkTTL   *sluice.Duration `json:"link_ttl"`
	Next      string           `json:"next"`
}

// portalLink is a link to the portal. Its code is in the fragment, which a browser does not send
// with the page's request: so no log and no Referer has it.
type portalLink struct {
	URL              string           `json:"url"`
	Hint             string           `json:"hint,omitempty"` // why the URL is relative
	ExpiresAt        time.Time        `json:"expires_at"`
	SessionExpiresAt time.Time        `json:"session_expires_at"`
	Grant            string           `json:"grant"`
	Principal        sluice.Principal `json:"principal"`
	Verbs            []sluice.Verb    `json:"verbs"` // that the session has
}

// createPortalLink makes a link that opens the portal once, with a part of a grant. It answers POST
// /v1/portal/links with 201. Codes NotFound; Forbidden; Conflict if the grant has ended;
// CapabilityRequired; QuotaExceeded.
func (s *Handler) createPortalLink(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	var req linkRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if err := checkNext(req.Next); err != nil {
		return err
	}
	made, err := a.Link(c.Request().Context(), httpkit.Caller(c), grants.LinkWish{
		Grant: req.Grant, Principal: req.Principal, Object: req.Object, Next: req.Next,
		TTL: lasting(req.TTL, grants.DefaultSession), LinkTTL: lasting(req.LinkTTL, grants.DefaultLink),
	})
	if err != nil {
		return err
	}
	l := portalLink{
		ExpiresAt: made.ExpiresAt, SessionExpiresAt: made.SessionUntil, Grant: made.Grant, Principal: made.Principal, Verbs: made.Verbs,
		URL: strings.TrimSuffix(s.needs.PublicURL, "/") + PortalPath + "/#code=" + made.Code,
	}
	if s.needs.PublicURL == "" { // the header Host may be anything
		l.Hint = "put the server's address in front, or set http.public_url"
	}
	return c.JSON(http.StatusCreated, l)
}

// lasting returns the given duration, or the other one if none is given. The authority checks the
// bounds.
func lasting(given *sluice.Duration, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return given.Std()
}

// checkNext returns an error (InvalidRequest) unless next, the page that a link opens, is a page of
// the portal or empty.
func checkNext(next string) error {
	if next == "" || isPortalPage(next) {
		return nil
	}
	return sluice.Errorf(sluice.InvalidRequest, "next: write a path of the portal such as %s/attempts, with up to %d printable ASCII characters, without escapes and #", PortalPath, maxPortalNext).With("field", "next")
}

// isPortalPage reports whether a text is the path of a page of the portal, in characters that all
// browsers interpret alike. It must have no fragment, which could be a code.
func isPortalPage(next string) bool {
	if len(next) > maxPortalNext || !strings.HasPrefix(next, PortalPath+"/") || strings.ContainsFunc(next, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' || r == '#' }) {
		return false
	}
	u, err := url.Parse(next)
	if err != nil || u.EscapedPath() != u.Path {
		return false
	}
	clean := path.Clean(u.Path)
	return strings.HasPrefix(u.Path, PortalPath+"/") && (u.Path == clean || u.Path == clean+"/")
}

// portalSession is an opened session of the portal. No cookie is set, so a page of another origin
// cannot act in it.
type portalSession struct {
	Token     string           `json:"token"`
	ExpiresAt time.Time        `json:"expires_at"`
	Grant     string           `json:"grant"` // revoking it ends the session
	Principal sluice.Principal `json:"principal"`
	Namespace string           `json:"namespace"`
	Object    sluice.Object    `json:"object"`
	Verbs     []sluice.Verb    `json:"verbs"`
	Next      string           `json:"next"`
}

// createPortalSession exchanges the code of a link for a token. It answers POST /v1/portal/sessions
// without a token: the code is the credential, and works once. Codes Unauthenticated, with the
// reason in the details; QuotaExceeded. Each Unauthenticated counts as a guess.
func (s *Handler) createPortalSession(c echo.Context) error {
	a, err := s.Authority()
	if err != nil {
		return err
	}
	var req struct {
		Code string `json:"code"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	addr, _ := netip.ParseAddr(c.RealIP()) // the zero address is a source, too
	from := httpkit.SourceOf(addr).String()
	if s.opening.Take(from) != nil {
		return sluice.Errorf(sluice.QuotaExceeded, "too many links are being used at once; try again").With("retry_after", 1)
	}
	defer s.opening.Leave(from)
	opened, err := a.Open(c.Request().Context(), req.Code)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, portalSession{
		Token: opened.Token, ExpiresAt: opened.ExpiresAt, Grant: opened.ID, Principal: opened.Principal, Namespace: opened.Object.Namespace,
		Object: opened.Object, Verbs: opened.Verbs, Next: opened.Next,
	})
}
