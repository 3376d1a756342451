package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// JetStream returns JetStream as any other client of the server has it.
func JetStream(tb testing.TB, server *Server) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	require.NoError(tb, err)
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(100_000)) // nothing waits for room: a busy machine takes its time
	require.NoError(tb, err)
	return js
}
