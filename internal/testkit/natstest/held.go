package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Held returns the address of a server like Custom's, and a function that holds back all requests to
// a subject: they come from the channel, and answer passes one of them on.
func Held(tb testing.TB) (url string, hold func(subject string) (requests <-chan *nats.Msg, answer func(*nats.Msg))) {
	tb.Helper()
	s := custom(tb, func(*server.Options) {})
	nc := Connect(tb, s.ClientURL())
	return s.ClientURL(), func(subject string) (<-chan *nats.Msg, func(*nats.Msg)) {
		const aside, on = "held.", "passed."
		requests := make(chan *nats.Msg, 64)
		_, err := nc.ChanSubscribe(aside+subject, requests)
		require.NoError(tb, err)
		require.NoError(tb, nc.Flush())
		require.NoError(tb, s.GlobalAccount().AddMapping(on+subject, subject))
		require.NoError(tb, s.GlobalAccount().AddMapping(subject, aside+subject))
		return requests, func(msg *nats.Msg) {
			require.NoError(tb, nc.PublishMsg(&nats.Msg{Subject: on + subject, Reply: msg.Reply, Header: msg.Header, Data: msg.Data}))
		}
	}
}
