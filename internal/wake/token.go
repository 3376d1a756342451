package wake

import (
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	// TokenFor is the lifetime of a token (S1-102).
	TokenFor = time.Hour
	// freshFor is the remaining lifetime above which a token is returned unchanged (S1-83).
	freshFor = 5 * time.Minute
	// renewFor is how long after its expiry a token is exchanged for a new one (register C28).
	renewFor = 24 * time.Hour
)

// Claim is the content of a token. Its bearer may call back for this consumer in this epoch
// (S1-104). It is bound to one incarnation of the subscription, and so invalid for a later
// subscription of the same id.
type Claim struct {
	Namespace string `json:"ns"`
	Consumer  string `json:"sub"`
	Of        string `json:"of"`
	Epoch     uint64 `json:"epoch"`

	callbacktoken.Term
}

// newToken returns a token for a claim (S1-102).
func newToken(keys callbacktoken.Keys, c Claim, now time.Time) (string, error) {
	c.Term = callbacktoken.Until(now.Add(TokenFor))
	return callbacktoken.Sign(keys, c)
}

// verify returns a token's claim. Codes: WakeTokenInvalid; WakeTokenExpired, together with the
// claim.
func verify(keys callbacktoken.Keys, token string, now time.Time) (Claim, error) {
	c, err := callbacktoken.Read[Claim](keys, token, now)
	switch {
	case errors.Is(err, callbacktoken.ErrExpired):
		return c, sluice.Errorf(sluice.WakeTokenExpired, "the token has expired")
	case err != nil:
		return c, notOurs()
	}
	return c, nil
}

func notOurs() error {
	return sluice.Errorf(sluice.WakeTokenInvalid, "the token does not belong to this consumer: send the token of the notice, or of the last response")
}

// renewable reports whether a token that has expired may be exchanged for a new one.
func (c Claim) renewable(now time.Time) bool {
	return c.ExpiresAt != nil && now.Before(c.ExpiresAt.Add(renewFor))
}

// next returns the token for the next callback: the same one, or a new one if that is about to
// expire (S1-83).
func next(keys callbacktoken.Keys, token string, c Claim, now time.Time) (string, error) {
	if c.ExpiresAt != nil && c.ExpiresAt.After(now.Add(freshFor)) {
		return token, nil
	}
	return newToken(keys, c, now)
}
