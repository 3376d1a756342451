package app

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// sweepKeysEvery is the interval of removing retired keys. A retired key neither signs nor is it
// listed, even before its removal.
const sweepKeysEvery = 10 * time.Minute

// keyRing holds the keys that sign requests to endpoints.
type keyRing struct {
	mu   sync.Mutex
	keys []signer
}

type signer struct {
	id        string
	private   ed25519.PrivateKey
	retiresAt time.Time
}

// set replaces the keys.
func (k *keyRing) set(keys []natsstore.Key) {
	signers := make([]signer, len(keys))
	for i, key := range keys {
		signers[i] = signer{key.ID, key.Private(), key.RetiresAt}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = signers
}

// SigningKeys returns the keys that have not retired, the newest first.
func (k *keyRing) SigningKeys() []ed25519.PrivateKey {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	private := make([]ed25519.PrivateKey, 0, len(k.keys))
	for _, s := range k.keys {
		if s.retiresAt.IsZero() || now.Before(s.retiresAt) {
			private = append(private, s.private)
		}
	}
	return private
}

// newest returns the key for signatures that allow only one, and its ID.
func (k *keyRing) newest() (id string, key ed25519.PrivateKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) == 0 {
		return "", nil
	}
	return k.keys[0].id, k.keys[0].private
}

// followKeys keeps the key ring in step with the store until ctx is done.
func (s *server) followKeys(ctx context.Context) error {
	return s.store.WatchKeys(ctx, sluice.UseWebhook, s.keys.set)
}

// sweepKeys removes retired keys until ctx is done.
func (s *server) sweepKeys(ctx context.Context) error {
	tick := time.NewTicker(sweepKeysEvery)
	defer tick.Stop()
	for {
		if err := s.store.RemoveRetiredKeys(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "retired keys not removed yet", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// keys implements the API's key operations. Changes are recorded in the ledger first.
type keys struct {
	store  *natsstore.Store
	ledger *ledger.Ledger
}

// Keys returns the public metadata of all keys.
func (k keys) Keys(ctx context.Context) ([]sluice.SigningKey, error) {
	all, err := k.store.AllKeys(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]sluice.SigningKey, len(all))
	for i, key := range all {
		shown[i] = key.Shown()
	}
	return shown, nil
}

// RotateKey creates a new key for webhooks.
func (k keys) RotateKey(ctx context.Context, overlap time.Duration, by string) (sluice.SigningKey, error) {
	type ring struct {
		Signs   string               `json:"signs"`
		Retires map[string]time.Time `json:"retires,omitempty"`
	}
	var intent *ledger.Intent
	made, err := k.store.RotateKey(ctx, sluice.UseWebhook, overlap, func(was, will, is natsstore.Key) (err error) {
		intent, err = k.ledger.Intend(ctx, nil, ledger.Change{
			Actor: by, Action: sluice.ActionKeyRotate, Resource: string(sluice.UseWebhook),
			Old: ring{Signs: was.ID}, New: ring{Signs: is.ID, Retires: map[string]time.Time{will.ID: will.RetiresAt}},
		})
		return err
	})
	if err != nil {
		intent.Fail(ctx, err)
		return sluice.SigningKey{}, err
	}
	return made.Shown(), nil
}

// Sealing returns the keys that seal the secrets in the store.
func (k keys) Sealing(ctx context.Context) (sluice.Sealing, error) { return k.store.Sealing(ctx) }

// macKeys holds the keys of one symmetric use.
type macKeys struct {
	mu   sync.Mutex
	keys [][]byte
}

func (k *macKeys) set(keys []natsstore.Key) {
	all := make([][]byte, len(keys))
	for i, key := range keys {
		all[i] = key.Seed
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = all
}

// all returns the keys, newest first.
func (k *macKeys) all() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}
