package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Profiles are off unless the setting serves them, and then for admins of the server.
func TestProfile_IsForAdminsOnceItIsOn(t *testing.T) {
	t.Parallel()
	ask := func(s *Server, path, token string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/debug/pprof/"+path, http.NoBody)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res := httptest.NewRecorder()
		s.Handler().ServeHTTP(res, req)
		return res
	}
	off := New(Options{Metrics: http.NotFoundHandler(), Authentication: Authentication{Token: "root"}})
	res := ask(off, "heap", "root")
	require.Equal(t, http.StatusNotFound, res.Code)
	require.Contains(t, res.Body.String(), "http.pprof")

	on := New(Options{Metrics: http.NotFoundHandler(), Authentication: Authentication{Token: "root"}, Network: Network{Pprof: true}})
	for path, want := range map[string]int{"heap": 200, "goroutine?debug=1": 200, "profile?seconds=61": 400, "cmdline": 404, "symbol": 404} {
		require.Equal(t, want, ask(on, path, "root").Code, path)
		require.Equal(t, http.StatusUnauthorized, ask(on, path, "").Code, path)
		require.Equal(t, http.StatusUnauthorized, ask(on, path, "forged").Code, path)
	}
	heap := ask(on, "heap", "root").Body.Bytes()
	require.Equal(t, []byte{0x1f, 0x8b}, heap[:2], "it is what pprof reads: compressed")
}
