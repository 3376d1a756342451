package wake

import (
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	// TokenFor is how long a token is good (S1-102).
	TokenFor = time.Hour
	// freshFor is how long it has to be good still to be given back as it is (S1-83).
	freshFor = 5 * time.Minute
	// renewFor is how long after it expired a token is exchanged for a new one (register C28).
	renewFor = 24 * time.Hour
)

// Keys sign tokens: HMAC keys of at least 32 bytes, shared by all replicas, the newest first. The
// newest signs, all of them verify.
type Keys interface{ WakeKeys() [][]byte }

// Claim is what a token says: whoever has it may call back as this consumer in this epoch (S1-104).
// It is of one incarnation of the subscription: of the next one of the same id it says nothing.
type Claim struct {
	Namespace string `json:"ns"`
	Consumer  string `json:"sub"`
	Of        string `json:"of"`
	Epoch     uint64 `json:"epoch"`

	jwt.RegisteredClaims
}

// newToken returns a token for a claim (S1-102).
func newToken(keys Keys, c Claim, now time.Time) (string, error) {
	all := keys.WakeKeys()
	if len(all) == 0 {
		return "", sluice.Errorf(sluice.Unavailable, "there is no key for tokens yet; try again")
	}
	c.RegisteredClaims = jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(now.Add(TokenFor))}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(all[0])
}

// verify returns what a token says. Codes: WakeTokenInvalid; WakeTokenExpired, and then what it said.
func verify(keys Keys, token string, now time.Time) (Claim, error) {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding())
	if strings.ContainsAny(token, "\r\n") {
		return Claim{}, notOurs() // base64 passes over them
	}
	for _, key := range keys.WakeKeys() {
		var c Claim
		_, err := parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key, nil })
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenMalformed), errors.Is(err, jwt.ErrTokenUnverifiable):
		case errors.Is(err, jwt.ErrTokenExpired):
			return c, sluice.Errorf(sluice.WakeTokenExpired, "the token has expired")
		}
	}
	return Claim{}, notOurs()
}

func notOurs() error {
	return sluice.Errorf(sluice.WakeTokenInvalid, "the token is not one of this consumer: send that of the notice, or of the last answer")
}

// renewable reports whether a token that has expired may be exchanged for a new one.
func (c Claim) renewable(now time.Time) bool {
	return c.ExpiresAt != nil && now.Before(c.ExpiresAt.Add(renewFor))
}

// next returns the token for the callback after this one: the same, unless it is about to expire (S1-83).
func next(keys Keys, token string, c Claim, now time.Time) (string, error) {
	if c.ExpiresAt != nil && c.ExpiresAt.After(now.Add(freshFor)) {
		return token, nil
	}
	return newToken(keys, c, now)
}
