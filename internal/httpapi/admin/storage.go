package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// storage returns the storage usage.
func (s *Handler) storage(c echo.Context) error {
	storage, err := s.needs.Storage(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, storage)
}

// verifyStorage starts a verification of the store, and returns its progress.
func (s *Handler) verifyStorage(c echo.Context) error {
	state, err := s.needs.Verify(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, state)
}

// forgetDamage acknowledges the damage that verifications have found.
func (s *Handler) forgetDamage(c echo.Context) error {
	if err := s.needs.ForgetDamage(c.Request().Context()); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
