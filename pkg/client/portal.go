package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// PortalLinkSpec describes a link to the portal: for a grant, or for a principal and an object.
type PortalLinkSpec struct {
	Grant     string           `json:"grant,omitempty"`
	Principal sluice.Principal `json:"principal,omitempty"`
	Object    *sluice.Object   `json:"object,omitempty"`
	TTL       sluice.Duration  `json:"ttl,omitempty"`      // of the session, 1 min to 24 h; 0: an hour
	LinkTTL   sluice.Duration  `json:"link_ttl,omitempty"` // 1 s to 10 min; 0: 5 min
	Next      string           `json:"next,omitempty"`     // where the portal begins, such as "/portal/attempts"
}

// PortalLink opens the portal once. Its URL is a secret until then.
type PortalLink struct {
	URL              string           `json:"url"`
	Hint             string           `json:"hint,omitempty"` // why the URL is relative
	ExpiresAt        time.Time        `json:"expires_at"`
	SessionExpiresAt time.Time        `json:"session_expires_at"`
	Grant            string           `json:"grant"` // that the session derives from
	Principal        sluice.Principal `json:"principal"`
	Verbs            []sluice.Verb    `json:"verbs"` // of the session
}

// PortalLink makes a link to the portal. Codes NotFound; Forbidden; Conflict if the grant has ended;
// CapabilityRequired; QuotaExceeded. The call is not retried.
func (c *Client) PortalLink(ctx context.Context, spec PortalLinkSpec) (PortalLink, error) {
	return send[PortalLink](ctx, c, call{method: http.MethodPost, path: "/v1/portal/links", once: true}, spec)
}

// PortalSession is an opened session of the portal.
type PortalSession struct {
	Token     string           `json:"token"`
	ExpiresAt time.Time        `json:"expires_at"`
	Grant     string           `json:"grant"` // RevokeGrant with it ends the session
	Principal sluice.Principal `json:"principal"`
	Namespace string           `json:"namespace"`
	Object    sluice.Object    `json:"object"`
	Verbs     []sluice.Verb    `json:"verbs"`
	Next      string           `json:"next"`
}

// OpenPortal exchanges the code of a link for the token of a session, once. Code Unauthenticated,
// with the "reason" in the details. The call is not retried, and needs no token.
func (c *Client) OpenPortal(ctx context.Context, code string) (PortalSession, error) {
	return send[PortalSession](ctx, c, call{method: http.MethodPost, path: "/v1/portal/sessions", once: true}, map[string]string{"code": code})
}
