package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Producers stores the records of unsafe producers.
type Producers interface {
	// UnsafeProducers returns all marks, in no order.
	UnsafeProducers(ctx context.Context) ([]sluice.Unsafe, error)
	// ClearProducer removes the mark of a producer. Code NotFound if it has none.
	ClearProducer(ctx context.Context, producer, by string) error
}

// unsafeList is one page of marks.
type unsafeList struct {
	Producers  []sluice.Unsafe `json:"producers"`
	NextCursor string          `json:"next_cursor"`
}

// listUnsafe lists unsafe producers, most recent first; the cursor is the last one on the previous
// page.
func (s *Handler) listUnsafe(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	all, err := s.opts.Producers.UnsafeProducers(c.Request().Context())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sluice.Unsafe) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(b.Producer, a.Producer))
	})
	page, next, err := httpkit.Paginate(p, all, func(one *sluice.Unsafe) string { return one.Producer })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, unsafeList{page, next})
}

// clearUnsafe answers DELETE /v1/producers/unsafe/{producer} with 204: its events with a cause are
// accepted again (S4-82). Codes NotFound; Conflict if another loop was found meanwhile.
func (s *Handler) clearUnsafe(c echo.Context) error {
	name, err := httpkit.Param(c, "producer")
	if err != nil {
		return err
	}
	if err := s.opts.Producers.ClearProducer(c.Request().Context(), name, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
