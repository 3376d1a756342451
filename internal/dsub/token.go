package dsub

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// tokenLife is how long a token can be used. Mostly a lease ends before, and the fence with it.
const tokenLife = 24 * time.Hour

// tokenPrefix begins every token, and what is signed: the key signs other things too.
const tokenPrefix = "dsw1."

// SecretKey is a symmetric key that all processes have.
type SecretKey struct {
	ID     string
	Secret []byte
}

// badge is what a token says.
type badge struct {
	Subscription string `json:"s"`
	Incarnation  string `json:"i"`
	Generation   uint64 `json:"g"`
	Expires      int64  `json:"e"`
	Key          string `json:"k"`
}

// token returns a token for the generation of a subscription.
func token(keys []SecretKey, s *Subscription, now time.Time) (string, error) {
	data, err := json.Marshal(badge{s.String(), s.Incarnation, s.Generation, now.Add(tokenLife).Unix(), keys[0].ID})
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	signed := tokenPrefix + base64.RawURLEncoding.EncodeToString(data)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sum(keys[0].Secret, signed)), nil
}

func sum(secret []byte, text string) []byte {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(text)) // a hash does not fail
	return mac.Sum(nil)
}

// readToken returns what a token for a subscription says. Codes TOKEN_INVALID; TOKEN_EXPIRED.
func readToken(keys []SecretKey, text string, k Key, now time.Time) (badge, error) {
	wrong := refuse(TokenInvalid, "the token is none that was given for this subscription")
	end := strings.LastIndexByte(text, '.')
	if end < len(tokenPrefix) || !strings.HasPrefix(text, tokenPrefix) {
		return badge{}, wrong
	}
	data, err := base64.RawURLEncoding.DecodeString(text[len(tokenPrefix):end])
	if err != nil {
		return badge{}, wrong
	}
	mac, err := base64.RawURLEncoding.DecodeString(text[end+1:])
	if err != nil {
		return badge{}, wrong
	}
	var b badge
	if json.Unmarshal(data, &b) != nil || b.Subscription != k.String() {
		return badge{}, wrong
	}
	for _, key := range keys {
		if key.ID == b.Key && hmac.Equal(mac, sum(key.Secret, text[:end])) {
			if now.Unix() >= b.Expires {
				return badge{}, refuse(TokenExpired, "the token has expired")
			}
			return b, nil
		}
	}
	return badge{}, wrong
}
