package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// afterwards returns what is logged of a request of which something goes on until the server stops.
func afterwards(t *testing.T, run func(ctx context.Context, end context.CancelFunc) error) (line map[string]any) {
	t.Helper()
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	var log bytes.Buffer
	s := New(Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), LogRequests: LogAll, Stopping: stopping})
	served, ended := make(chan struct{}), make(chan struct{})
	s.echo.GET("/after", func(c echo.Context) error {
		httpkit.SetAfter(c, httpkit.After{
			Run: func(ctx context.Context, end context.CancelFunc) error {
				<-served // the request's context has ended, and its place is another one's
				return run(ctx, end)
			},
			Sent: func() int64 { return 7 },
			End:  func() { close(ended) },
		})
		return c.NoContent(http.StatusAccepted)
	})
	ctx, cancel := context.WithCancel(t.Context())
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/after", http.NoBody))
	cancel()
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
	require.Empty(t, log.String(), "it is logged when it is over")
	close(served)
	stop()
	<-ended
	require.NoError(t, json.Unmarshal(log.Bytes(), &line), "one line: %s", log.String())
	require.Equal(t, "/after", line["route"])
	require.Equal(t, "request", line["msg"])
	require.InDelta(t, http.StatusAccepted, line["status"], 0)
	require.InDelta(t, 7, line["bytes"], 0)
	return line
}

func TestAfter_LogsTheEndOfLongRequests(t *testing.T) {
	t.Parallel()
	line := afterwards(t, func(ctx context.Context, _ context.CancelFunc) error {
		<-ctx.Done() // it ends with the server
		return nil
	})
	require.Equal(t, "INFO", line["level"])
	require.NotContains(t, line, "code")
	line = afterwards(t, func(ctx context.Context, end context.CancelFunc) error {
		end()
		<-ctx.Done()
		return sluice.Errorf(sluice.Forbidden, "no")
	})
	require.Equal(t, "INFO", line["level"])
	require.Equal(t, "forbidden", line["code"])
}

func TestAfter_LogsAPanicAndCloses(t *testing.T) {
	t.Parallel()
	line := afterwards(t, func(context.Context, context.CancelFunc) error { panic("hunter2") })
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "internal", line["code"])
	require.Contains(t, line["error"], "hunter2")
	require.Contains(t, line["error"], "after_internal_test.go", "the stack")
}
