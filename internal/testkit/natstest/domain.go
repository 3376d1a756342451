package natstest

import (
	"net"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// Domains returns the addresses of a hub and of a leaf node of it, both with JetStream, in the domains
// "hub" and "leaf". They end with the test.
func Domains(tb testing.TB) (hub, leaf string) {
	tb.Helper()
	free, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	at := free.Addr().String()
	require.NoError(tb, free.Close())
	host, port, err := net.SplitHostPort(at)
	require.NoError(tb, err)
	hub = Custom(tb, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "hub", "hub"
		o.LeafNode.Host = host
		o.LeafNode.Port, err = strconv.Atoi(port)
		require.NoError(tb, err)
	})
	leaf = Custom(tb, func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "leaf", "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats-leaf", Host: at}}}}
	})
	return hub, leaf
}
