package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DefaultOverlap is how long a key signs along beside the one that takes its place, if nothing
// else is said.
const DefaultOverlap = 24 * time.Hour

// Keys returns what may be known of the server's own keys, the newest of a use first.
func (c *Client) Keys(ctx context.Context) ([]sluice.SigningKey, error) {
	page, err := list[sluice.SigningKey](ctx, c, "/v1/keys", "keys", nil)
	return page.Items, err
}

// RotateKey gives the signature scheme ed25519 a new key and returns it. The one before it signs
// along for the overlap; with 0 all others are removed at once.
func (c *Client) RotateKey(ctx context.Context, overlap time.Duration) (sluice.SigningKey, error) {
	body := map[string]sluice.Duration{"overlap": sluice.Duration(overlap)}
	return send[sluice.SigningKey](ctx, c, call{method: http.MethodPost, path: "/v1/keys/rotate", once: true}, body)
}

// Sealing says with which keys the secrets in the server's store are sealed.
func (c *Client) Sealing(ctx context.Context) (sluice.Sealing, error) {
	return send[sluice.Sealing](ctx, c, call{method: http.MethodGet, path: "/v1/secrets"}, nil)
}
