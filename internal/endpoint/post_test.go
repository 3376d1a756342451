package endpoint_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPost_SendsTheBodyAndReturnsTheAnswer(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: 202, Body: `{"done":true}`} })
	header := http.Header{"Content-Type": {"application/json"}, "Webhook-Signature": {"t=1,kid=ds_a,ed25519=b"}}
	reply := local(t).Post(t.Context(), server.URL+"/wake?a=b", header, []byte(`{"wake":1}`), 10*time.Second)
	require.Equal(t, endpoint.Reply{Outcome: sluice.Delivered, Status: 202, Body: []byte(`{"done":true}`), Whole: true}, reply)
	got := server.Wait(1)[0]
	require.Equal(t, "POST", got.Method)
	require.Equal(t, "/wake?a=b", got.Path)
	require.Equal(t, `{"wake":1}`, string(got.Body))
	require.Equal(t, "t=1,kid=ds_a,ed25519=b", got.Header.Get("Webhook-Signature"))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(got.Header.Get("User-Agent"), "Sluice/"))
	require.Empty(t, header.Get("User-Agent"), "the caller's header stays as it is")
}

func TestPost_KnownOutcomes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer hooktest.Answer
		want   endpoint.Reply
	}{
		"an empty 200":  {hooktest.Answer{}, endpoint.Reply{Outcome: sluice.Delivered, Status: 200, Body: []byte{}, Whole: true}},
		"a redirect":    {hooktest.Answer{Status: 307, Header: map[string]string{"Location": "http://169.254.169.254/x?y"}}, endpoint.Reply{Outcome: sluice.Failed, Status: 307, Error: "redirect to http://169.254.169.254/x not followed"}},
		"gone":          {hooktest.Answer{Status: 410}, endpoint.Reply{Outcome: sluice.Gone, Status: 410, Error: "status 410"}},
		"later":         {hooktest.Answer{Status: 503, Header: map[string]string{"Retry-After": "7"}}, endpoint.Reply{Outcome: sluice.Failed, Status: 503, Error: "status 503", RetryAfter: 7 * time.Second}},
		"no answer":     {hooktest.Answer{Cut: true}, endpoint.Reply{Outcome: sluice.Failed, Error: "connection closed before the response was complete", Class: sluice.FailConnection}},
		"half a 200":    {hooktest.Answer{Cut: true, Body: "abcdef"}, endpoint.Reply{Outcome: sluice.Failed, Error: "connection closed before the response was complete", Class: sluice.FailConnection}},
		"a large 200":   {hooktest.Answer{Body: strings.Repeat("x", 70_000)}, endpoint.Reply{Outcome: sluice.Delivered, Status: 200, Body: []byte(strings.Repeat("x", 64<<10))}},
		"never answers": {hooktest.Answer{Hang: true}, endpoint.Reply{Outcome: sluice.Failed, Error: "timeout after 500ms", Class: sluice.FailTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return tt.answer })
			timeout := 10 * time.Second
			if tt.answer.Hang {
				timeout = 500 * time.Millisecond
			}
			require.Equal(t, tt.want, local(t).Post(t.Context(), server.URL, nil, []byte("{}"), timeout))
		})
	}
}

func TestPost_IsGuardedLikeAttempts(t *testing.T) {
	t.Parallel()
	for url, outcome := range map[string]sluice.Outcome{
		"http://10.0.0.1/hook":     sluice.Refused,
		"ftp://example.com/":       sluice.Refused,
		"https://169.254.169.254/": sluice.Failed, // the dialler says so
	} {
		reply := sender(t, endpoint.Options{}).Post(t.Context(), url, nil, nil, 10*time.Second)
		require.Equal(t, outcome, reply.Outcome, url)
		require.NotEmpty(t, reply.Error, url)
		require.Zero(t, reply.Status, url)
	}
}

func TestPost_ReportsItsInterruption(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan endpoint.Reply, 1)
	go func() { ended <- local(t).Post(ctx, server.URL, nil, []byte("{}"), time.Minute) }()
	server.Wait(1)
	cancel()
	require.Equal(t, endpoint.Reply{Outcome: sluice.Failed, Error: "interrupted", Class: sluice.FailOther}, <-ended)
}
