package natsstore

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// While NATS is away for a minute, readers and leases retry hundreds of times. One line says that
// the connection is lost.
func TestRetryLevel_WarnsOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	s, err := Connect(t.Context(), Options{URL: server.ClientURL(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Equal(t, slog.LevelWarn, s.retryLevel(context.DeadlineExceeded, 0))
	require.Equal(t, slog.LevelDebug, s.retryLevel(context.DeadlineExceeded, 1), "a failure after another")
	require.Equal(t, slog.LevelDebug, s.retryLevel(jetstream.ErrStreamNotFound, 0), "the integrity check reports it")
	require.Equal(t, slog.LevelDebug, s.retryLevel(errServerStops, 0))
	server.Stop(t)
	require.Eventually(t, func() bool { return s.retryLevel(context.DeadlineExceeded, 0) == slog.LevelDebug }, time.Minute, time.Millisecond)
}
