package hooktest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func post(t *testing.T, url string, timeout time.Duration) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("hello"))
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

func TestServer_AnswersAsConfigured(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	close(open)
	answers := []hooktest.Answer{
		{},
		{Status: 503, Body: "busy", Header: map[string]string{"Retry-After": "1"}},
		{Body: "slow", Drip: time.Millisecond},
		{Body: "later", Until: open},
		{Cut: true},
		{Body: "half of it", Cut: true},
		{Hang: true},
	}
	server := hooktest.New(t, func(r hooktest.Request) hooktest.Answer { return answers[r.Number-1] })
	tests := []struct {
		status int
		body   string
		fails  string
	}{
		{200, "", ""},
		{503, "busy", ""},
		{200, "slow", ""},
		{200, "later", ""},
		{0, "", "EOF"},
		{200, "half ", "unexpected EOF"},
		{0, "", "deadline"},
	}
	for i, tt := range tests {
		limit := time.Minute
		if tt.fails == "deadline" {
			limit = 500 * time.Millisecond
		}
		status, body, err := post(t, server.URL+"/hook?a=b", limit)
		require.Equal(t, tt.status, status)
		require.Equal(t, tt.body, body)
		if tt.fails == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.fails)
		}
		got := server.Wait(i + 1)[i]
		require.Equal(t, []string{"POST", "/hook?a=b", "hello"}, []string{got.Method, got.Path, string(got.Body)})
	}
	require.Len(t, server.Requests(), len(tests))
}
