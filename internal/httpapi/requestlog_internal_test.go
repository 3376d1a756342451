package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestRequestLog_LevelOfEachRequest(t *testing.T) { // issue 18
	t.Parallel()
	const info, debug, fault = slog.LevelInfo, slog.LevelDebug, slog.LevelError
	for _, c := range []struct {
		name                   string
		r                      served
		took                   time.Duration
		errors, slow, all, non slog.Level
	}{
		{"a quick one", served{status: 200}, time.Millisecond, debug, debug, info, debug},
		{"a slow one", served{status: 200}, slowRequest, debug, info, info, debug},
		{"a long poll", served{status: 200, waits: true}, time.Minute, debug, debug, info, debug},
		{"a client that left", served{status: statusLeft}, time.Millisecond, debug, debug, info, debug},
		{"a refused one", served{status: 404}, 0, info, info, info, debug},
		{"a failed one", served{status: 500, level: fault}, 0, fault, fault, fault, debug},
		{"a feed that failed", served{status: 200, level: fault, waits: true}, 0, fault, fault, fault, debug},
		{"a probe", served{status: 200, level: debug}, time.Minute, debug, debug, debug, debug},
	} {
		require.Equal(t, c.errors, LogErrors.level(&c.r, c.took), c.name)
		require.Equal(t, c.slow, LogSlow.level(&c.r, c.took), c.name)
		require.Equal(t, c.all, LogAll.level(&c.r, c.took), c.name)
		require.Equal(t, c.non, LogNone.level(&c.r, c.took), c.name)
	}
}

func TestRequestLog_DefaultIsSilentAboutSuccess(t *testing.T) { // issue 18
	t.Parallel()
	var log bytes.Buffer
	s := New(Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	s.echo.GET("/status/:code", func(c echo.Context) error {
		var code int
		_, err := fmt.Sscan(c.Param("code"), &code)
		require.NoError(t, err)
		return c.NoContent(code)
	})
	get := func(code int) {
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint("/status/", code), http.NoBody))
	}
	for range 1000 {
		get(http.StatusCreated)
	}
	require.Empty(t, log.String())
	get(http.StatusConflict)
	require.Contains(t, log.String(), `"status":409`)
}

func TestWaits_FollowingRequests(t *testing.T) {
	t.Parallel()
	s := echo.New()
	of := func(target, kind string, status int) bool {
		c := s.NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody), httptest.NewRecorder())
		c.Response().Header().Set(echo.HeaderContentType, kind)
		c.Response().Status = status
		return waits(c)
	}
	require.False(t, of("/", "application/json", http.StatusOK))
	require.True(t, of("/", "text/event-stream; charset=utf-8", http.StatusOK))
	require.True(t, of("/?live=long-poll", "application/json", http.StatusOK))
	require.True(t, of("/?wait=30s", "application/json", http.StatusOK))
	require.True(t, of("/", "", http.StatusSwitchingProtocols))
}
