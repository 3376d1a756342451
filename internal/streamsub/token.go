package streamsub

import (
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
)

// tokenLife is the lifetime of a token. In most cases the lease ends earlier, and then the
// generation fences the token.
const tokenLife = 24 * time.Hour

// badge is the content of a token. It is valid for one generation of one incarnation.
type badge struct {
	Subscription string `json:"wakes"`
	Incarnation  string `json:"incarnation"`
	Generation   uint64 `json:"generation"`

	callbacktoken.Term
}

// token returns a token for the generation of a subscription.
func token(keys callbacktoken.Keys, s *Subscription, now time.Time) (string, error) {
	return callbacktoken.Sign(keys, badge{s.String(), s.Incarnation, s.Generation, callbacktoken.Until(now.Add(tokenLife))})
}

// readToken returns the content of a token for a subscription. Codes TOKEN_INVALID; TOKEN_EXPIRED.
func readToken(keys callbacktoken.Keys, text string, k Key, now time.Time) (badge, error) {
	b, err := callbacktoken.Read[badge](keys, text, now)
	switch {
	case b.Subscription != k.String():
		return badge{}, refuse(TokenInvalid, "the token was not issued for this subscription")
	case errors.Is(err, callbacktoken.ErrExpired):
		return badge{}, refuse(TokenExpired, "the token has expired")
	}
	return b, err
}
