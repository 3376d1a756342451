package natsstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that is away is named in the log, without its password, and not at every attempt.
func TestConnect_NamesServerAwayOnce(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond) // several attempts
	defer cancel()
	_, err := Connect(ctx, Options{URL: "nats://ann:secret@127.0.0.1:1, nats://127.0.0.1:2", Log: slog.New(slog.NewTextHandler(&text, nil))})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, text.String(), `nats="nats://xxxxx@127.0.0.1:1, nats://127.0.0.1:2"`)
	require.NotContains(t, text.String(), "secret")
	require.Equal(t, 1, strings.Count(text.String(), "msg=connect"), text.String())
}
