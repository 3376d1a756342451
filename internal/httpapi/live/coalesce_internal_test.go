package live

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The settings are one JSON object, and nothing else.
func TestFeedCoalesce_RefusesMoreThanAnObject(t *testing.T) {
	t.Parallel()
	parse := func(text string) error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?coalesce="+url.QueryEscape(text), http.NoBody)
		_, err := feedCoalesce(echo.New().NewContext(req, httptest.NewRecorder()))
		return err
	}
	require.NoError(t, parse(`{"labels":["type"],"window_ms":100}`))
	for _, more := range []string{"}", "]", "{}"} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(parse(`{"labels":["type"],"window_ms":100}`+more)), more)
	}
	require.Error(t, parse(`{"labels":["type"],"Labels":["subject"]}`), "names have one case")
}
