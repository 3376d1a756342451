package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Interrupted returns the address of a server like Custom's, and a function that makes the next
// request to a subject wait for first, which may make requests to the same subject.
func Interrupted(tb testing.TB) (url string, before func(subject string, first func())) {
	tb.Helper()
	s := custom(tb, func(*server.Options) {})
	nc := Connect(tb, s.ClientURL())
	return s.ClientURL(), func(subject string, first func()) {
		const aside = "interrupted."
		_, err := nc.Subscribe(aside+subject, func(msg *nats.Msg) {
			s.GlobalAccount().RemoveMapping(subject)
			_ = msg.Sub.Unsubscribe() // it fails only when the test ends
			first()
			if answer, err := nc.RequestMsg(&nats.Msg{Subject: subject, Header: msg.Header, Data: msg.Data}, requestPatience); err == nil {
				_ = msg.RespondMsg(answer)
			}
		})
		require.NoError(tb, err)
		require.NoError(tb, nc.Flush())
		require.NoError(tb, s.GlobalAccount().AddMapping(subject, aside+subject))
	}
}
