package httpkit

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	defaultLimit = 100
	// MaxLimit is the maximum number of elements of a page.
	MaxLimit = 1000
)

// Limit returns the maximum number of elements of a list.
func Limit(c echo.Context) (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, sluice.Errorf(sluice.InvalidRequest, "limit %q: use 1 to %d", text, MaxLimit).With("field", "limit")
	}
	return n, nil
}

// ListCursor returns the position from which a list continues, 0 for the start.
func ListCursor(c echo.Context) (uint64, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return 0, nil
	}
	place, err := strconv.ParseUint(text, 10, 64)
	if err != nil || place == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "cursor %q does not belong to this list; send next_cursor unchanged", text).With("field", "cursor")
	}
	return place, nil
}
