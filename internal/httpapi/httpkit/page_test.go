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

func asking(t *testing.T, query string) echo.Context {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?"+query, http.NoBody)
	return echo.New().NewContext(req, httptest.NewRecorder())
}

func TestPageOf_ReadsLimitAndCursor(t *testing.T) {
	t.Parallel()
	p, err := httpkit.PageOf(asking(t, "state=on&cursor=b"))
	require.NoError(t, err)
	require.Equal(t, httpkit.Page{Cursor: "b", Limit: 100}, p)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x"} {
		_, err := httpkit.PageOf(asking(t, query))
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), query)
	}
}

func TestCheckQuery_RefusesIgnoredParameters(t *testing.T) {
	t.Parallel()
	list, one := httpkit.OnPages("/v1/lists", nil, nil, "types"), httpkit.On(http.MethodPost, "/v1/lists/:id", nil, nil)
	for query, says := range map[string]string{
		"":                         "",
		"types=a&types=b&cursor=c": "",
		"types=a%3Bb&limit=%25":    "",
		"other=1":                  `"other" is unknown; valid parameters are types, limit, cursor`,
		"cursor=a&cursor=b":        `"cursor" is repeated`,
		"types=a;b":                "percent-encode ; and %",
		"types=100%":               "percent-encode ; and %",
		"limit=1;":                 "percent-encode ; and %",
	} {
		err := list.CheckQuery(asking(t, query))
		if says == "" {
			require.NoError(t, err, query)
			continue
		}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), query)
		require.ErrorContains(t, err, says, query)
	}
	require.ErrorContains(t, one.CheckQuery(asking(t, "dry_run=true")), `"dry_run" is unknown; this request has none`)
	require.NoError(t, httpkit.On(http.MethodOptions, "/v1/lists", nil, nil).CheckQuery(asking(t, "types=a")), "preflight")
	stream := httpkit.On(http.MethodGet, "/streams/:ns/*", nil, nil)
	require.NoError(t, stream.CheckQuery(asking(t, "types=a")), "its protocol decides")
	require.Error(t, stream.CheckQuery(asking(t, "subscription=a;")), "which would be another request without it")
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
