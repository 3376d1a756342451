package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

// Issue 13, attack 9: a receiver agrees with the servers that it knows, and leaves other requests alone.
func TestHandshake_AgreesWithKnownOrigins(t *testing.T) {
	t.Parallel()
	ask := func(method, origin string, origins []string, rate int) (bool, *httptest.ResponseRecorder) {
		r, w := httptest.NewRequestWithContext(t.Context(), method, "/hook", nil), httptest.NewRecorder()
		if origin != "" {
			r.Header.Set(webhook.HeaderRequestOrigin, origin)
		}
		answered := webhook.AnswerHandshake(w, r, origins, rate)
		return answered, w
	}
	known := []string{"events.example.com"}
	answered, res := ask(http.MethodOptions, "Events.Example.com", known, 120)
	require.True(t, answered)
	require.Equal(t, []any{http.StatusOK, "Events.Example.com", "120"}, []any{res.Code, res.Header().Get(webhook.HeaderAllowedOrigin), res.Header().Get(webhook.HeaderAllowedRate)})
	answered, res = ask(http.MethodOptions, "evil.example", known, 0)
	require.True(t, answered)
	require.Equal(t, []any{http.StatusForbidden, ""}, []any{res.Code, res.Header().Get(webhook.HeaderAllowedOrigin)})
	_, res = ask(http.MethodOptions, "any.example", nil, 0)
	require.Equal(t, []any{"any.example", "*"}, []any{res.Header().Get(webhook.HeaderAllowedOrigin), res.Header().Get(webhook.HeaderAllowedRate)})
	answered, _ = ask(http.MethodPost, "events.example.com", known, 0)
	require.False(t, answered)
	answered, _ = ask(http.MethodOptions, "", known, 0)
	require.False(t, answered)
}
