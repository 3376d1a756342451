package keyring

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// sweepEvery is the interval of removing retired keys. Even before its removal, a retired key does
// not sign and is not listed.
const sweepEvery = 10 * time.Minute

// Service implements the API's key operations. Changes are recorded in the ledger first.
type Service struct {
	Store  *natsstore.Store
	Ledger *ledger.Ledger
	Log    *slog.Logger
}

// Follow passes the keys of a use, and then every change, to set until ctx is done.
func (s Service) Follow(use sluice.KeyUse, set func([]natsstore.Key)) func(ctx context.Context) error {
	return func(ctx context.Context) error { return s.Store.Keys().Watch(ctx, use, set) }
}

// Sweep removes retired keys until ctx is done.
func (s Service) Sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Store.Keys().RemoveRetired(ctx); err != nil && ctx.Err() == nil {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "retired keys not removed yet", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// KeySet returns a function for the public halves of the signing keys, with a prefix before their
// IDs.
func (s Service) KeySet(prefix string) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		keys, err := s.Store.Keys().For(ctx, sluice.UseWebhook)
		if err != nil {
			return nil, err
		}
		public := make([]webhook.PublicKey, len(keys))
		for i, k := range keys {
			public[i] = webhook.PublicKey{ID: prefix + k.ID, Key: k.Public()}
		}
		return webhook.FormatKeys(public...)
	}
}

// BundleKeys returns the keys for bundles and receipts, newest first; the newest signs. It creates
// one if there is none.
func (s Service) BundleKeys(ctx context.Context) ([]ed25519.PrivateKey, error) {
	keys, err := s.Store.Keys().For(ctx, sluice.UseBundle)
	private := make([]ed25519.PrivateKey, len(keys))
	for i, k := range keys {
		private[i] = k.Private()
	}
	return private, err
}

// Keys returns the public metadata of all keys.
func (s Service) Keys(ctx context.Context) ([]sluice.SigningKey, error) {
	all, err := s.Store.Keys().All(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]sluice.SigningKey, len(all))
	for i, key := range all {
		shown[i] = key.Shown()
	}
	return shown, nil
}

// RotateKey creates a new key for a use.
func (s Service) RotateKey(ctx context.Context, use sluice.KeyUse, overlap time.Duration, by string) (sluice.SigningKey, error) {
	type ring struct {
		Signs   string               `json:"signs"`
		Retires map[string]time.Time `json:"retires,omitempty"`
	}
	var intent *ledger.Intent
	made, err := s.Store.Keys().Rotate(ctx, use, overlap, func(was, will, is natsstore.Key) (err error) {
		intent, err = s.Ledger.Intend(ctx, nil, ledger.Change{
			Actor: by, Action: sluice.ActionKeyRotate, Resource: string(use),
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
func (s Service) Sealing(ctx context.Context) (sluice.Sealing, error) { return s.Store.Sealing(ctx) }
