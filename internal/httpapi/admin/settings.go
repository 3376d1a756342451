package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// settingList is the complete list of settings, which is short.
type settingList struct {
	Settings   []sluice.Setting `json:"settings"`
	NextCursor string           `json:"next_cursor"`
}

// listSettings answers GET /v1/settings for admins of everything: the settings of the replica that
// answers.
func (s *Handler) listSettings(c echo.Context) error {
	return c.JSON(http.StatusOK, settingList{Settings: s.opts.Settings})
}
