package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// failing is a publisher that does what it is told.
type failing func(ctx context.Context) error

func (f failing) Publish(ctx context.Context, _ string, _ []sluice.Event) ([]sluice.Stored, error) {
	return nil, f(ctx)
}

// failingBench has an API whose publisher fails, and nothing else.
func failingBench(t *testing.T, f failing) *bench {
	t.Helper()
	b := &bench{parts: &parts{}, log: &logged{}}
	opts := b.bareOptions()
	opts.Ingest = ingest.New(ingest.Deps{Publisher: f})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	return b
}

func TestRequestID_HarmlessOneIsTakenOver(t *testing.T) {
	t.Parallel()
	b := failingBench(t, nil)
	for _, id := range []string{"abc-123", strings.Repeat("x", 128)} {
		require.Equal(t, id, b.do(t, "GET /healthz", "", "X-Request-Id", id).header.Get("X-Request-Id"))
	}
	for _, id := range []string{"", "a b", `a"b`, strings.Repeat("x", 129), "ä"} {
		got := b.do(t, "GET /healthz", "", "X-Request-Id", id).header.Get("X-Request-Id")
		require.NotEqual(t, id, got)
		_, err := uuid.Parse(got)
		require.NoError(t, err)
	}
}

func TestError_HidesInternalDetails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{"an error", errors.New("password is hunter2"), 500, "internal", ""},
		{"an internal error of ours", sluice.Errorf(sluice.Internal, "hunter2"), 500, "internal", ""},
		{"a wrapped refusal", fmt.Errorf("hunter2: %w", sluice.Errorf(sluice.Conflict, "no")), 409, "conflict", ""},
		{"no answer in time", fmt.Errorf("hunter2: %w", context.DeadlineExceeded), 503, "unavailable", "1"},
		{"no store", fmt.Errorf("%w: hunter2", sluice.Errorf(sluice.Unavailable, "no")), 503, "unavailable", "1"},
		{"a full store", sluice.Errorf(sluice.QuotaExceeded, "full"), 429, "quota_exceeded", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := failingBench(t, func(context.Context) error { return tt.err })
			a := b.must(t, tt.status, "POST "+events, `{"path":"/a"}`)
			require.Equal(t, tt.code, a.code())
			require.NotContains(t, a.text, "hunter2")
			require.Equal(t, tt.retryAfter, a.header.Get("Retry-After"))
			lines := b.log.lines()
			require.Len(t, lines, 1, "one line a request")
			require.Equal(t, tt.status >= 500, strings.Contains(lines[0], `"level":"ERROR"`))
			require.Equal(t, tt.status >= 500 && strings.Contains(tt.err.Error(), "hunter2"), strings.Contains(lines[0], "hunter2"))
		})
	}
}

func TestError_PanicIsInternal(t *testing.T) {
	t.Parallel()
	b := failingBench(t, func(context.Context) error { panic("hunter2") })
	a := b.must(t, http.StatusInternalServerError, "POST "+events, `{"path":"/a"}`)
	require.Equal(t, "internal", a.code())
	require.NotContains(t, a.text, "hunter2")
	require.Contains(t, b.log.lines()[0], "hunter2")
	require.Contains(t, b.log.lines()[0], "observe_test.go", "the stack")
	b.must(t, http.StatusOK, "GET /healthz", "")
}

func TestLog_HasOneLinePerRequest(t *testing.T) {
	t.Parallel()
	b := failingBench(t, func(context.Context) error { return sluice.Errorf(sluice.Conflict, "no") })
	b.do(t, "POST "+events, `{"path":"/a","data":"hunter2"}`, "X-Request-Id", "r1")
	b.do(t, "GET /healthz?secret=hunter2", "")
	lines := b.log.lines()
	require.Len(t, lines, 2)
	require.NotContains(t, lines[0]+lines[1], "hunter2")
	require.NotContains(t, lines[0], token)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	for key, want := range map[string]any{
		"level": "INFO", "msg": "request", "method": "POST", "path": events, "route": "/v1/namespaces/:ns/events",
		"status": float64(409), "request_id": "r1", "code": "conflict",
	} {
		require.Equal(t, want, line[key], key)
	}
	require.Contains(t, lines[1], `"level":"DEBUG"`)
}

func TestLog_AbsentClientIsNoServerError(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	b := failingBench(t, func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return fmt.Errorf("publish: %w", ctx.Err())
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL+events, strings.NewReader(`{"path":"/a"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	go func() { <-entered; cancel() }()
	_, err = b.http.Client().Do(req) //nolint:bodyclose // there is no answer
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return strings.Contains(b.log.lines()[0], "request") }, time.Minute, time.Millisecond)
	require.Contains(t, b.log.lines()[0], `"level":"INFO"`)
	require.Contains(t, b.log.lines()[0], `"status":499`)
}

func TestReady_NeedsNATSAndHealthDoesNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.nats.Stop(t)
	require.Eventually(t, func() bool { return b.do(t, "GET /readyz", "").status == http.StatusServiceUnavailable }, time.Minute, 10*time.Millisecond)
	b.must(t, http.StatusOK, "GET /livez", "", "Authorization", "")
	a := b.do(t, "GET /readyz", "")
	require.Equal(t, "unavailable", a.code())
	require.Equal(t, "1", a.header.Get("Retry-After"))
	b.must(t, http.StatusOK, "GET /healthz", "")
	b.nats.Start(t)
	require.Eventually(t, func() bool { return b.do(t, "GET /readyz", "").status == http.StatusOK }, time.Minute, 10*time.Millisecond)
}

func TestAuth_EmptyServerTokenAdmitsNoCaller(t *testing.T) {
	t.Parallel()
	opts := (&bench{parts: &parts{}, log: &logged{}}).bareOptions()
	opts.Token = ""
	b := &bench{http: httptest.NewServer(httpapi.New(opts).Handler())}
	t.Cleanup(b.http.Close)
	for _, authorization := range []string{"", "Bearer ", "Bearer"} {
		b.must(t, http.StatusUnauthorized, "GET /v1/capabilities", "", "Authorization", authorization)
	}
}
