package natsstore

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// firstKey is the record of the first key. That its name is fixed lets one process win when
// several make a key at once.
const firstKey = "1"

// Key is an Ed25519 key of the server.
type Key struct {
	ID        string    `json:"kid"` // a hash of the public key
	Seed      []byte    `json:"seed"`
	CreatedAt time.Time `json:"created_at"`
}

// Private returns the private key.
func (k Key) Private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.Seed) }

// Public returns the public key, which verifies.
func (k Key) Public() ed25519.PublicKey {
	return ed25519.PublicKey(k.Private()[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// Keys returns the server's keys, the newest, which signs, first; what they signed can be
// verified with any of them. There is one at least: if none is stored, one is made.
func (s *Store) Keys(ctx context.Context) ([]Key, error) {
	bucket := OpenBucket[Key](s, streams.Keys)
	for {
		entries, err := bucket.List(ctx, ">")
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			keys := make([]Key, len(entries))
			for i, e := range entries {
				keys[i] = e.Value
			}
			slices.SortFunc(keys, func(a, b Key) int { return b.CreatedAt.Compare(a.CreatedAt) })
			return keys, nil
		}
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		_, err = bucket.Put(ctx, firstKey, key, 0)
		if sluice.CodeOf(err) == sluice.Conflict {
			_, _, err = bucket.Get(ctx, firstKey) // one that cannot be read is no reason for another
		}
		if err != nil {
			return nil, err
		}
	}
}

func newKey() (Key, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return Key{}, fmt.Errorf("make a signing key: %w", err)
	}
	hash := sha256.Sum256(public)
	return Key{ID: base64.RawURLEncoding.EncodeToString(hash[:12]), Seed: private.Seed(), CreatedAt: time.Now().UTC()}, nil
}
