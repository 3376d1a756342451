package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
)

// A supervisor must not restart a server that waits for its NATS, and callers should not fail because of a short restart.
func TestStarting_AnswersHealthChecksAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starting, began := httpapi.NewStarting(), time.Now()
		ask := func(path string) (*httptest.ResponseRecorder, time.Duration) {
			w := httptest.NewRecorder()
			starting.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			return w, time.Since(began)
		}
		for path, status := range map[string]int{"/livez": http.StatusOK, "/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
			w, took := ask(path)
			require.Equal(t, status, w.Code, path)
			require.Zero(t, took)
		}
		w, took := ask("/v1/capabilities")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, 5*time.Second, took, "a short restart is a delay")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `{"ok":false,"error":{"code":"unavailable","message":"the server is starting;`)
		require.Contains(t, w.Body.String(), `"request_id":"`+w.Header().Get("X-Request-Id")+`"`)

		go func() {
			<-time.After(time.Second)
			starting.Ready(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		}()
		began = time.Now()
		w, took = ask("/v1/capabilities")
		require.Equal(t, http.StatusTeapot, w.Code, "the API answers the request that waited")
		require.Equal(t, time.Second, took)
		w, _ = ask("/livez")
		require.Equal(t, http.StatusTeapot, w.Code, "and all later ones")
	})
}
