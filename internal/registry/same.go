package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// configuration is everything that a client chooses about a subscription, except its secret
// and whether it is enabled now. Defaults are filled in, so that to name one changes nothing.
type configuration struct {
	Namespace      string            `json:"namespace"`
	Mode           sluice.Mode       `json:"mode"`
	Pattern        sluice.Pattern    `json:"pattern"`
	Target         string            `json:"target"`
	Filter         sluice.Filter     `json:"filter"`
	URL            string            `json:"url"`
	Handshake      bool              `json:"handshake,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Start          string            `json:"start"`
	Policy         sluice.Policy     `json:"policy"`
	ReplayWindow   sluice.Duration   `json:"replay_window"`
	Description    string            `json:"description"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	IdempotencyKey string            `json:"idempotency_key"`
}

// structure is what makes two subscriptions of one principal the same wish (S0-27): the same
// events to the same endpoint. How they are delivered does not count.
type structure struct {
	Namespace string         `json:"namespace"`
	Mode      sluice.Mode    `json:"mode"`
	Pattern   sluice.Pattern `json:"pattern"`
	Target    string         `json:"target"`
	Filter    sluice.Filter  `json:"filter"`
	URL       string         `json:"url"`
	Principal string         `json:"principal"`
}

func configHash(sub *sluice.Subscription) (string, error) {
	return hash(configuration{
		Namespace: sub.Namespace, Mode: sub.Mode, Pattern: sub.Pattern, Target: sub.Target, Filter: sub.Filter,
		URL: sub.Endpoint.URL, Handshake: sub.Endpoint.Handshake, Headers: sub.Endpoint.Headers, Start: sub.Start, Policy: sub.Policy,
		ReplayWindow: sub.ReplayWindow, Description: sub.Description, Metadata: sub.Metadata, IdempotencyKey: sub.IdempotencyKey,
	})
}

// structureKey returns the key under which a subscription is reserved by its structure.
func structureKey(sub *sluice.Subscription) (string, error) {
	return hash(structure{
		Namespace: sub.Namespace, Mode: sub.Mode, Pattern: sub.Pattern, Target: sub.Target, Filter: sub.Filter,
		URL: sub.Endpoint.URL, Principal: sub.CreatedBy,
	})
}

// reservationKey returns the key under which nobody else may make the subscription: by its
// idempotency key within namespace and principal (S0-26), else by structure.
func reservationKey(sub *sluice.Subscription) (string, error) {
	if sub.IdempotencyKey == "" {
		return structureKey(sub)
	}
	return hash([]string{sub.Namespace, sub.CreatedBy, sub.IdempotencyKey})
}

// sameSecret reports whether the request gave no secret or one that the subscription has.
func sameSecret(given string, sub *sluice.Subscription) bool {
	return given == "" || slices.ContainsFunc(sub.Secrets, func(s sluice.Secret) bool { return hmac.Equal([]byte(s.Value), []byte(given)) })
}

func hash(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("hash %T: %w", v, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
