package authz

import (
	"crypto/subtle"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Check returns the holder of a verified token. Code Unauthenticated, with the reason in the
// details, if the token is expired or superseded, or its grant, or a grant that it derives from,
// was revoked or has expired (S0-55). Known is false if this replica does not know the grant;
// another replica may have just created it.
func (x *Index) Check(c *Claims, now time.Time) (holder sluice.Caller, known bool, err error) {
	return x.check(c.Grant, HashNonce(c.Nonce), c.Expiry, now)
}

// holder returns the holder of a grant.
func (g *granted) holder() sluice.Caller {
	c := sluice.Caller{Principal: g.Principal, Grant: g.ID}
	if g.Session {
		c.Lasting = g.Parent
	}
	return c
}

// check is Check for a token or a ticket, from its grant and the hash of the token's nonce.
func (x *Index) check(grant, nonce string, expiry, now time.Time) (holder sluice.Caller, known bool, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.knows(now) {
		return holder, true, model.PermissionsUnknown()
	}
	if !now.Before(expiry) {
		return holder, true, refuse(Expired, "the token has expired; its issuer can renew the grant")
	}
	g := x.grants[grant]
	if g == nil {
		return holder, false, refuse(Revoked, "the token's grant is unknown")
	}
	if subtle.ConstantTimeCompare([]byte(g.Nonce), []byte(nonce)) != 1 {
		return holder, true, refuse(Replayed, "the token was replaced by a newer one")
	}
	switch x.each(grant, now, func(*granted) answer { return granting }) {
	case granting:
		return g.holder(), true, nil
	case unknown:
		return holder, false, refuse(Revoked, "the parent of the token's grant is unknown")
	case incapable, concealed, refused:
	}
	return holder, true, refuse(Revoked, "the token's grant, or a grant that it derives from, was revoked or has expired")
}
