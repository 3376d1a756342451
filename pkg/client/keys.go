package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DefaultOverlap is the default time during which the previous key or secret also signs.
const DefaultOverlap = 24 * time.Hour

// Keys returns the public metadata of the server's own keys, newest first within each use.
func (c *Client) Keys(ctx context.Context) ([]sluice.SigningKey, error) {
	page, err := list[sluice.SigningKey](ctx, c, "/v1/keys", "keys", nil)
	return page.Items, err
}

// Settings returns the settings of the server that answers, without secrets.
func (c *Client) Settings(ctx context.Context) ([]sluice.Setting, error) {
	page, err := list[sluice.Setting](ctx, c, "/v1/settings", "settings", nil)
	return page.Items, err
}

// RotateKey creates a new key for the signature scheme ed25519 and returns it. The previous key
// also signs during the overlap; with 0, all other keys are removed immediately.
func (c *Client) RotateKey(ctx context.Context, overlap time.Duration) (sluice.SigningKey, error) {
	body := map[string]sluice.Duration{"overlap": sluice.Duration(overlap)}
	return send[sluice.SigningKey](ctx, c, call{method: http.MethodPost, path: "/v1/keys/rotate", once: true}, body)
}

// RotateBundleKey creates a new key for bundles and receipts, which signs at once, and returns it. BundleKeys
// lists the previous key, too, during the overlap.
func (c *Client) RotateBundleKey(ctx context.Context, overlap time.Duration) (sluice.SigningKey, error) {
	return send[sluice.SigningKey](ctx, c, call{method: http.MethodPost, path: "/v1/keys/rotate", once: true}, struct {
		Use     string          `json:"use"`
		Overlap sluice.Duration `json:"overlap"`
	}{"bundle", sluice.Duration(overlap)})
}

// Sealing returns the keys that seal the secrets in the server's store.
func (c *Client) Sealing(ctx context.Context) (sluice.Sealing, error) {
	return send[sluice.Sealing](ctx, c, call{method: http.MethodGet, path: "/v1/secrets"}, nil)
}
