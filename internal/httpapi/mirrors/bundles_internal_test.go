package mirrors

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Damage over many pages is one range of the bundle. Ranges that sequences lie between stay apart.
func TestExport_LostRangeOfManyPagesIsOne(t *testing.T) {
	t.Parallel()
	e := &export{header: bundle.Header{Since: 5, Through: 5}}
	for _, page := range []sluice.ObservePage{
		{ThroughSeq: 20, HasMore: true, Lost: []sluice.Gap{{From: 1, To: 7}, {From: 9, To: 99}}},
		{ThroughSeq: 30, HasMore: true, Lost: []sluice.Gap{{From: 9, To: 99}}},
		{ThroughSeq: 40, HasMore: true, Lost: []sluice.Gap{{From: 31, To: 32}, {From: 34, To: 40}}},
		{ThroughSeq: 50, Lost: []sluice.Gap{{From: 42, To: 50}}},
	} {
		page.Incarnation, page.LastSeq = "i", 50
		more, err := e.take(&page)
		require.NoError(t, err)
		require.Equal(t, page.HasMore, more)
	}
	require.Equal(t, []sluice.Gap{{From: 6, To: 7}, {From: 9, To: 32}, {From: 34, To: 40}, {From: 42, To: 50}}, e.header.Lost)
}

func TestExport_ErrorNamesTheParameterScope(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?scope=x", http.NoBody)
	_, err := exportQuery(echo.New().NewContext(req, httptest.NewRecorder()))
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, "scope", e.Details["field"])
}
