package httpkit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func pageOf(t *testing.T, query string, params ...string) (httpkit.Page, error) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?"+query, http.NoBody)
	return httpkit.PageOf(echo.New().NewContext(req, httptest.NewRecorder()), params...)
}

func TestPageOf_ReadsLimitAndCursor(t *testing.T) {
	t.Parallel()
	p, err := pageOf(t, "state=on&cursor=b", "state")
	require.NoError(t, err)
	require.Equal(t, httpkit.Page{Cursor: "b", Limit: 100}, p)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "other=1", "cursor=a&cursor=b"} {
		_, err := pageOf(t, query, "state")
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), query)
	}
	_, err = pageOf(t, "other=1", "state")
	require.ErrorContains(t, err, "valid parameters are state, limit, cursor")
}

func TestPaginate_ContinuesAfterTheCursor(t *testing.T) {
	t.Parallel()
	var got []string
	p, all := httpkit.Page{Limit: 2}, []string{"a", "b", "c", "d", "e"}
	for range 3 {
		page, next, err := httpkit.Paginate(p, all, func(s *string) string { return *s })
		require.NoError(t, err)
		got, p.Cursor = append(got, page...), next
	}
	require.Equal(t, all, got)
	require.Empty(t, p.Cursor)
	_, _, err := httpkit.Paginate(httpkit.Page{Limit: 2, Cursor: "f"}, all, func(s *string) string { return *s })
	require.ErrorContains(t, err, `cursor "f" does not belong to this list`)
}

func TestPosition_IsTheCursorThatNextReturned(t *testing.T) {
	t.Parallel()
	for _, at := range []uint64{0, 1, 1<<64 - 1} {
		got, err := httpkit.Page{Cursor: httpkit.Next(at)}.Position()
		require.NoError(t, err)
		require.Equal(t, at, got)
	}
	for _, cursor := range []string{"0", "-1", "x"} {
		_, err := httpkit.Page{Cursor: cursor}.Position()
		require.ErrorContains(t, err, "does not belong to this list", cursor)
	}
}
