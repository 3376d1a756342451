package subscription

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// configuration is everything that a client chooses about a subscription, except its secrets and
// whether it is enabled. It has the defaults, so that a request that names a default is no
// different.
type configuration struct {
	Namespace      string               `json:"namespace"`
	Mode           sluice.Mode          `json:"mode"`
	Pattern        sluice.Pattern       `json:"pattern"`
	Target         string               `json:"target"`
	Filter         sluice.Filter        `json:"filter"`
	URL            string               `json:"url"`
	Exec           []string             `json:"exec,omitempty"`
	Handshake      bool                 `json:"handshake,omitempty"`
	Headers        map[string]string    `json:"headers,omitempty"`
	Auth           *sluice.EndpointAuth `json:"auth,omitempty"`
	TLS            *sluice.EndpointTLS  `json:"tls,omitempty"`
	Start          string               `json:"start"`
	Policy         sluice.Policy        `json:"policy"`
	ReplayWindow   sluice.Duration      `json:"replay_window"`
	Description    string               `json:"description"`
	Metadata       map[string]string    `json:"metadata,omitempty"`
	IdempotencyKey string               `json:"idempotency_key"`
}

// structure identifies duplicates among the subscriptions of one principal (S0-27): the same events
// to the same endpoint, regardless of the delivery policy.
type structure struct {
	Namespace string         `json:"namespace"`
	Mode      sluice.Mode    `json:"mode"`
	Pattern   sluice.Pattern `json:"pattern"`
	Target    string         `json:"target"`
	Filter    sluice.Filter  `json:"filter"`
	URL       string         `json:"url"`
	Exec      []string       `json:"exec,omitempty"`
	Principal string         `json:"principal"`
}

func configHash(sub *sluice.Subscription) (string, error) {
	shown := sub.Endpoint
	_ = takeCredentials(&shown) // sameCredentials compares them
	return hash(configuration{
		Namespace: sub.Namespace, Mode: sub.Mode, Pattern: sub.Pattern, Target: sub.Target, Filter: sub.Filter,
		URL: sub.Endpoint.URL, Exec: sub.Endpoint.Exec, Handshake: sub.Endpoint.Handshake, Headers: shown.Headers, Auth: shown.Auth, TLS: shown.TLS, Start: sub.Start, Policy: sub.Policy,
		ReplayWindow: sub.ReplayWindow, Description: sub.Description, Metadata: sub.Metadata, IdempotencyKey: sub.IdempotencyKey,
	})
}

// structureKey returns the reservation key of a subscription's structure.
func structureKey(sub *sluice.Subscription) (string, error) {
	return hash(structure{
		Namespace: sub.Namespace, Mode: sub.Mode, Pattern: sub.Pattern, Target: sub.Target, Filter: sub.Filter,
		URL: sub.Endpoint.URL, Exec: sub.Endpoint.Exec, Principal: sub.CreatedBy,
	})
}

// reservationKey returns the key that prevents duplicates of the subscription: its idempotency key
// within namespace and principal (S0-26), or else its structure.
func reservationKey(sub *sluice.Subscription) (string, error) {
	if sub.IdempotencyKey == "" {
		return structureKey(sub)
	}
	return hash([]string{sub.Namespace, sub.CreatedBy, sub.IdempotencyKey})
}

// sameSecret reports whether the request has no secret, or one of the subscription's secrets.
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
