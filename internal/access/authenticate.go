package access

import (
	"crypto/subtle"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Check returns whose a verified token is. Unauthenticated, with the reason in the details, if it is expired, is not the one
// that counts, or its grant, or one that this is a part of, was revoked or has expired (S0-55). The second result is
// false if the grant is not known here; it may have been made a moment ago elsewhere.
func (x *Index) Check(c *Claims, now time.Time) (holder sluice.Caller, known bool, err error) {
	return x.check(c.Grant, HashNonce(c.Nonce), c.Expiry, now)
}

// check is Check for what names its grant, and by a hash the token of it that it is, or that it came of.
func (x *Index) check(grant, nonce string, expiry, now time.Time) (holder sluice.Caller, known bool, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.knows(now) {
		return holder, true, sluice.Errorf(sluice.Unavailable, "who may do what is not known at the moment; try again")
	}
	if !now.Before(expiry) {
		return holder, true, refuse(Expired, "the token has expired; its issuer can renew the grant")
	}
	g := x.grants[grant]
	if g == nil {
		return holder, false, refuse(Revoked, "the token's grant is not known")
	}
	if subtle.ConstantTimeCompare([]byte(g.Nonce), []byte(nonce)) != 1 {
		return holder, true, refuse(Replayed, "the token was replaced by a newer one")
	}
	switch x.each(grant, now, func(*granted) answer { return granting }) {
	case granting:
		return sluice.Caller{Principal: g.Principal, Grant: g.ID}, true, nil
	case unknown:
		return holder, false, refuse(Revoked, "the grant that the token's is a part of is not known")
	case incapable, concealed, refused:
	}
	return holder, true, refuse(Revoked, "the token's grant, or one that it is a part of, was revoked or has expired")
}
