package admin

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// defaultOverlap is how long a replaced signing key stays valid.
const defaultOverlap = 24 * time.Hour

// Keys manages the server's own keys without revealing them.
type Keys interface {
	// Keys returns the public metadata of the keys that have not retired, newest first within each
	// use.
	Keys(ctx context.Context) ([]sluice.SigningKey, error)
	// RotateKey creates a new key for a use and returns it. Previous keys stay valid during the
	// overlap, in which those for webhooks also sign. Codes Conflict; Unavailable.
	RotateKey(ctx context.Context, use sluice.KeyUse, overlap time.Duration, by string) (sluice.SigningKey, error)
	// Sealing returns the keys that seal the secrets in the store.
	Sealing(ctx context.Context) (sluice.Sealing, error)
}

// keyList is the complete list of keys, which is short.
type keyList struct {
	Keys       []sluice.SigningKey `json:"keys"`
	NextCursor string              `json:"next_cursor"`
}

// listKeys answers GET /v1/keys for admins of everything, on one page, without private keys.
func (s *Handler) listKeys(c echo.Context) error {
	keys, err := s.opts.Keys.Keys(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, keyList{Keys: keys})
}

// RotateKeyRequest is the body of a POST that rotates a key.
type RotateKeyRequest struct {
	Use     sluice.KeyUse    `json:"use"`
	Overlap *sluice.Duration `json:"overlap"`
}

// rotateKey answers POST /v1/keys/rotate for admins of everything with 201. The zero overlap
// removes the other keys at once. It is not idempotent without an Idempotency-Key. Codes Conflict
// after a concurrent rotation, or if too many keys exist for an overlap; Unavailable.
func (s *Handler) rotateKey(c echo.Context) error {
	var req RotateKeyRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	overlap := defaultOverlap
	if req.Overlap != nil {
		overlap = req.Overlap.Std()
	}
	if overlap < 0 {
		return sluice.Errorf(sluice.InvalidRequest, "overlap %s is negative", overlap).With("field", "overlap")
	}
	use := cmp.Or(req.Use, sluice.UseWebhook)
	if use != sluice.UseWebhook && use != sluice.UseBundle {
		return sluice.Errorf(sluice.InvalidRequest, "use %q: write webhook or bundle; the other keys are not rotated", use).With("field", "use")
	}
	key, err := s.opts.Keys.RotateKey(c.Request().Context(), use, overlap, httpkit.By(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, key)
}

// sealing answers GET /v1/secrets for admins of everything: the IDs of the sealing keys, with the
// number of records that need each.
func (s *Handler) sealing(c echo.Context) error {
	sealing, err := s.opts.Keys.Sealing(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sealing)
}

// jwks returns the public halves of the signing keys. It answers GET /.well-known/jwks.json without
// a token. Receivers may keep it for five minutes, which is shorter than the default overlap of a
// rotation.
func (s *Handler) jwks(c echo.Context) error {
	set, err := s.opts.JWKS(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=300")
	return c.Blob(http.StatusOK, "application/jwk-set+json", set)
}
