package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Timeouts on a machine that has much else to do.
const (
	connectPatience = time.Minute
	requestPatience = 20 * time.Second // the server may have lost a request, and the caller may repeat it
)

// Connect returns a connection to the NATS server at a URL, which is closed when the test ends.
func Connect(tb testing.TB, url string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.Timeout(connectPatience)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(nc.Close)
	return nc
}

// Dial returns a JetStream client with a connection of its own like Connect's.
func Dial(tb testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(Connect(tb, url, opts...),
		jetstream.WithDefaultTimeout(requestPatience), jetstream.WithPublishAsyncMaxPending(100_000)) // so many that no publish waits
	require.NoError(tb, err)
	return js
}

// JetStream is Dial within the process.
func JetStream(tb testing.TB, server *Server) jetstream.JetStream {
	tb.Helper()
	return Dial(tb, "", nats.InProcessServer(server))
}
