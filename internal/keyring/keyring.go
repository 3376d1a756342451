// Package keyring keeps the server's keys in memory up to date with their records, and implements
// the API's operations on keys.
package keyring

import (
	"crypto/ed25519"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// Signing holds the keys that sign requests to endpoints.
type Signing struct {
	mu   sync.Mutex
	keys []signer
}

type signer struct {
	id        string
	private   ed25519.PrivateKey
	retiresAt time.Time
}

// Set replaces the keys.
func (k *Signing) Set(keys []natsstore.Key) {
	signers := make([]signer, len(keys))
	for i, key := range keys {
		signers[i] = signer{key.ID, key.Private(), key.RetiresAt}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = signers
}

// SigningKeys returns the keys that have not retired, the newest first.
func (k *Signing) SigningKeys() []webhook.SigningKey {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	private := make([]webhook.SigningKey, 0, len(k.keys))
	for _, s := range k.keys {
		if s.retiresAt.IsZero() || now.Before(s.retiresAt) {
			private = append(private, webhook.SigningKey{ID: s.id, Key: s.private})
		}
	}
	return private
}

// Newest returns the key for signatures that allow only one, and its ID.
func (k *Signing) Newest() (id string, key ed25519.PrivateKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) == 0 {
		return "", nil
	}
	return k.keys[0].id, k.keys[0].private
}

// MAC holds the keys of one symmetric use.
type MAC struct {
	mu   sync.Mutex
	keys [][]byte
}

// Set replaces the keys.
func (k *MAC) Set(keys []natsstore.Key) {
	all := make([][]byte, len(keys))
	for i, key := range keys {
		all[i] = key.Seed
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = all
}

// All returns the keys, newest first.
func (k *MAC) All() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// WakeKeys returns the keys, newest first. It is part of callbacktoken.Keys.
func (k *MAC) WakeKeys() [][]byte { return k.All() }
