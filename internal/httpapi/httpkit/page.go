package httpkit

import (
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const defaultLimit = 100

// MaxLimit is the maximum number of elements of a page.
const MaxLimit = 1000

// Page selects a page of a list. Limit is 1 to MaxLimit, and 100 by default.
type Page struct {
	Cursor string // next_cursor of the previous page; "": the first page
	Limit  int
}

// PageOf returns the page that a request selects. Code InvalidRequest.
func PageOf(c echo.Context) (Page, error) {
	limit, err := Limit(c)
	return Page{Cursor: c.QueryParam("cursor"), Limit: limit}, err
}

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

// Position returns the cursor as a position in a log, 0 for the start.
func (p Page) Position() (uint64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	at, err := strconv.ParseUint(p.Cursor, 10, 64)
	if err != nil || at == 0 {
		return 0, model.ForeignCursor(p.Cursor)
	}
	return at, nil
}

// Next returns the cursor for the page at a position. Position 0 means that the list has ended, and
// its cursor is "".
func Next(position uint64) string {
	if position == 0 {
		return ""
	}
	return strconv.FormatUint(position, 10)
}

// Paginate returns a page of a complete list and the cursor of the next page, which is the name of
// the page's last element. The cost is O(n). The cursor of a removed element is InvalidRequest.
func Paginate[T any](p Page, all []T, name func(*T) string) (page []T, next string, err error) {
	if p.Cursor != "" {
		at := slices.IndexFunc(all, func(one T) bool { return name(&one) == p.Cursor })
		if at < 0 {
			return nil, "", model.ForeignCursor(p.Cursor)
		}
		all = all[at+1:]
	}
	page, next = model.FirstPage(all, p.Limit, name)
	return page, next, nil
}
