package httpkit

import (
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// HeaderUnreadable has the ranges of sequences within a response in which events may be lost to
// damage. It is not part of the Durable Streams protocol.
const HeaderUnreadable = "Stream-Unreadable"

// SetUnreadable sets HeaderUnreadable, if there are gaps.
func SetUnreadable(c echo.Context, gaps []sluice.Gap) {
	if len(gaps) > 0 {
		c.Response().Header().Set(HeaderUnreadable, Ranges(gaps))
	}
}

// Ranges writes gaps as "7-9, 12-12".
func Ranges(gaps []sluice.Gap) string {
	texts := make([]string, len(gaps))
	for i, g := range gaps {
		texts[i] = fmt.Sprintf("%d-%d", g.From, g.To)
	}
	return strings.Join(texts, ", ")
}
