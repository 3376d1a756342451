package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// defaultOverlap is how long a signing key stays beside the one that takes its place.
const defaultOverlap = 24 * time.Hour

// Keys knows the server's own keys, and never shows one.
type Keys interface {
	// Keys returns what may be known of the keys that have not retired, the newest of a use first.
	Keys(ctx context.Context) ([]sluice.SigningKey, error)
	// RotateKey gives webhooks a new key and returns it. Those before it sign along for the
	// overlap. Codes Conflict; Unavailable.
	RotateKey(ctx context.Context, overlap time.Duration, by string) (sluice.SigningKey, error)
	// Sealing says with which keys the secrets in the store are sealed.
	Sealing(ctx context.Context) (sluice.Sealing, error)
}

// keyList is all keys: there are few.
type keyList struct {
	Keys       []sluice.SigningKey `json:"keys"`
	NextCursor string              `json:"next_cursor"`
}

func (s *Server) listKeys(c echo.Context) error {
	keys, err := s.opts.Keys.Keys(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, keyList{Keys: keys})
}

// rotateKeyRequest is what can be said about a rotation.
type rotateKeyRequest struct {
	Overlap *sluice.Duration `json:"overlap"`
}

func (s *Server) rotateKey(c echo.Context) error {
	var req rotateKeyRequest
	if err := bind(c, &req); err != nil {
		return err
	}
	overlap := defaultOverlap
	if req.Overlap != nil {
		overlap = req.Overlap.Std()
	}
	if overlap < 0 {
		return sluice.Errorf(sluice.InvalidRequest, "overlap %s is negative", overlap).With("field", "overlap")
	}
	key, err := s.opts.Keys.RotateKey(c.Request().Context(), overlap, by(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, key)
}

func (s *Server) sealing(c echo.Context) error {
	sealing, err := s.opts.Keys.Sealing(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sealing)
}
