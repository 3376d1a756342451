package endpoint_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestLimit_OversizedRenderingIsNotSent(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, nil)
	s := sender(t, endpoint.Options{AllowLoopback: true, MaxBody: 2000})
	for _, tt := range []struct {
		name     string
		envelope sluice.Envelope
		data     int
		dead     sluice.Reason
	}{
		{"data that fits", sluice.EnvelopeRaw, 2000, ""},
		{"data that does not", sluice.EnvelopeRaw, 2001, sluice.EventTooLarge},
		{"an envelope that fits", sluice.EnvelopeCloudEvents, 1000, ""},
		{"an envelope that is too much", sluice.EnvelopeCloudEvents, 1900, sluice.EventTooLarge},
		{"an envelope that is too much by its encoding", sluice.EnvelopeFact, 1990, sluice.EventTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sub, ev := subscription(server.URL+"/"+string(tt.dead)), event()
			sub.Policy.Envelope, ev.Data = tt.envelope, []byte(strings.Repeat("1", tt.data))
			a := s.Send(t.Context(), sub, ev, 1)
			require.Equal(t, tt.dead, a.Dead)
			if tt.dead == "" {
				require.Equal(t, sluice.Delivered, a.Outcome)
				return
			}
			require.Equal(t, sluice.Refused, a.Outcome)
			require.Contains(t, a.Error, "webhooks.max_body, 2000 bytes")
			require.Zero(t, a.Status)
		})
	}
	t.Cleanup(func() {
		for _, r := range server.Requests() {
			require.Equal(t, "/", r.Path, "what is too large is not sent")
		}
	})
}

// Of an answer of 100 MB only the first bytes are taken off the wire, and the connection ends.
func TestLimit_HugeAnswerCostsNeitherMemoryNorTime(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		written := make(chan int, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			n, chunk := 0, make([]byte, 64<<10)
			for n < size {
				some, err := w.Write(chunk)
				n += some
				if err != nil {
					break
				}
			}
			written <- n
		}))
		t.Cleanup(server.Close)
		s := sender(t, endpoint.Options{AllowLoopback: true, MaxResponse: 4 << 10})
		a := s.Send(t.Context(), subscription(server.URL), event(), 1)
		require.Equal(t, status, a.Status)
		require.LessOrEqual(t, len(a.Response), 1<<10)
		require.Less(t, <-written, size/2, "what the sockets hold, and then the connection is closed")
	}
}

func TestExcerpt_MasksRepeatedSecrets(t *testing.T) {
	t.Parallel()
	key := strings.TrimPrefix(newSecret, sluice.SecretPrefix)
	raw, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	tests := []struct{ name, body, want string }{
		{"the secret", "you sent " + newSecret + "!", "you sent ***!"},
		{"its base64", "key=" + key + ";", "key=***;"},
		{"without padding", "key=" + strings.TrimRight(key, "=") + ";", "key=***;"},
		{"the key", "key " + string(raw), "key ***"},
		{"one that has expired", oldSecret, "***"},
		{"in a query", "?s=whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ%3D&x", "?s=***&x"},
		{"as JSON has it", `{"k":"a\/b+c\/secret"}`, `{"k":"***"}`},
		{"a header that is a credential", "X-Api-Key: a/b+c/secret", "X-Api-Key: ***"},
		{"a token behind its scheme", "token tok-12345 is unknown", "token *** is unknown"},
		{"one after another", newSecret + newSecret, "******"},
		{"a header that is none", "env production", "env production"},
		{"at the end of what is kept", strings.Repeat("x", 1020) + newSecret, strings.Repeat("x", 1020) + "***"},
		{"across the end of what is kept", strings.Repeat("x", 1023) + newSecret, strings.Repeat("x", 1023) + "*"},
		{"behind many that made room", strings.Repeat(newSecret, 30), strings.Repeat("***", 21)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: 500, Body: tt.body} })
			require.Equal(t, tt.want, local(t).Send(t.Context(), talkative(server.URL), event(), 1).Response)
		})
	}
}

// talkative returns a subscription with several secrets.
func talkative(url string) *sluice.Subscription {
	sub := subscription(url)
	sub.Secrets = append(sub.Secrets, sluice.Secret{Value: oldSecret, ExpiresAt: time.Unix(1, 0)})
	sub.Endpoint.Headers = map[string]string{"x-api-key": "a/b+c/secret", "x-access-token": "Bearer tok-12345", "x-env": "production"}
	return sub
}

func TestRedirect_ErrorMasksSecrets(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Status: 302, Header: map[string]string{"Location": "https://other.example/" + strings.Repeat("a", 220) + "/tok-12345/b"}}
	})
	a := local(t).Send(t.Context(), talkative(server.URL), event(), 1)
	require.Contains(t, a.Error, "a/***/b not followed")
}
