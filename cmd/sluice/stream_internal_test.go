package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"
)

// A user that follows a stream and interrupts it has the messages until then, and no error.
func TestStream_InterruptEndsFollowWithoutError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("offset") == "0_1" {
			cancel() // as ^C does
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Stream-Next-Offset", "0_1")
		_, _ = io.WriteString(w, `[{"n": 1}, "<&>"]`)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	var stdout, stderr bytes.Buffer
	s := &terminal.Session{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Exit: func(int) {}}
	require.Zero(t, run(ctx, []string{"stream", "read", "/a", "--follow", "--server", server.URL}, s), stderr.String())
	require.Equal(t, "{\"n\":1}\n\"<&>\"\n", stdout.String())
	require.Empty(t, stderr.String())
}
