package subscriptioncmd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// A replay that a seek cancels while a command waits for it may have done nothing: the command shows it, and fails.
func TestReplay_CancelledWhileAwaitedIsAnError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"id":"r","subscription":"s","state":"running"}`
		if r.Method == http.MethodGet {
			answer = `{"id":"r","subscription":"s","state":"cancelled","reason":"its subscription ended or was moved"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]interface {
		Run(ctx context.Context, s *terminal.Session) error
	}{
		"sub probe":            &subProbeCmd{ID: "s"},
		"sub retry":            &subRetryCmd{ID: "s"},
		"sub replay --wait":    &subReplayCmd{ID: "s", From: "1", Wait: true},
		"deliveries --retry":   &DeliveriesCmd{Sub: "s", EventID: "e", Retry: true},
		"deliveries --discard": &DeliveriesCmd{Sub: "s", EventID: "e", Discard: true},
	} {
		var out bytes.Buffer
		s := &terminal.Session{Flags: terminal.Flags{Server: server.URL, Token: "t"}, Stdout: &out, Stderr: io.Discard}
		require.EqualError(t, c.Run(t.Context(), s), "the replay was cancelled: its subscription ended or was moved", name)
		require.Contains(t, out.String(), "its subscription ended or was moved", name)
	}
}
