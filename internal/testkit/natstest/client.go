package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// JetStream returns a JetStream client of the server, with a connection of its own that is closed
// when the test ends.
func JetStream(tb testing.TB, server *Server) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	require.NoError(tb, err)
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(100_000)) // so many that no publish waits, even on a busy machine
	require.NoError(tb, err)
	return js
}
