package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestProfile_IsMadeOneAtATime(t *testing.T) {
	t.Parallel()
	s := New(Options{}, Deps{Pprof: true})
	ask := func() error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/debug/pprof/heap", http.NoBody)
		c := echo.New().NewContext(req, httptest.NewRecorder())
		c.SetParamNames("profile")
		c.SetParamValues("heap")
		return s.profile(c)
	}
	s.profiling.Lock()
	require.Equal(t, sluice.Conflict, sluice.CodeOf(ask()))
	s.profiling.Unlock()
	require.NoError(t, ask())
}
