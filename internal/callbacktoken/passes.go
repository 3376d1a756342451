// Package callbacktoken signs and verifies callback tokens and tickets: JSON Web Tokens with
// HMAC-SHA256 and keys that all replicas share. Each engine defines its own claims. No claim of one
// engine may have a meaning in another, so that a token of one is never valid for another.
package callbacktoken

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Keys provides the token keys, each of at least 32 bytes, the newest first. The newest signs, and
// all of them verify.
type Keys interface{ WakeKeys() [][]byte }

// Term is the part of a token's claims with its expiry. Claims embed it.
type Term = jwt.RegisteredClaims

// Until returns the term that ends at a time.
func Until(at time.Time) Term { return Term{ExpiresAt: jwt.NewNumericDate(at)} }

// Reasons why a token is invalid.
var (
	ErrForged  = errors.New("the token was not signed by this server")
	ErrExpired = errors.New("the token has expired")
)

// Sign returns a token. Code Unavailable if there is no key.
func Sign(keys Keys, claims jwt.Claims) (string, error) {
	all := keys.WakeKeys()
	if len(all) == 0 {
		return "", sluice.Errorf(sluice.Unavailable, "no signing key for tokens yet; retry")
	}
	pass, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(all[0])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return pass, nil
}

// Read verifies a token and returns its claims. With ErrExpired it also returns the claims; with
// ErrForged it returns none.
func Read[C any, P interface {
	*C
	jwt.Claims
}](keys Keys, pass string, now time.Time) (C, error) {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding())
	var nothing C
	if strings.ContainsAny(pass, "\r\n") {
		return nothing, ErrForged // base64 ignores them
	}
	for _, key := range keys.WakeKeys() {
		var claims C
		_, err := parser.ParseWithClaims(pass, P(&claims), func(*jwt.Token) (any, error) { return key, nil })
		switch {
		case err == nil:
			return claims, nil
		case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenMalformed), errors.Is(err, jwt.ErrTokenUnverifiable):
		case errors.Is(err, jwt.ErrTokenExpired):
			return claims, ErrExpired
		}
	}
	return nothing, ErrForged
}
