package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Behind returns the address of a server like Custom's that behaves as a cluster with a replica that
// is far behind: about half of the direct reads of the streams find no message. Reads at the leader
// find all.
func Behind(tb testing.TB, streams ...string) string {
	tb.Helper()
	account := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	for _, stream := range streams {
		for _, end := range []string{"", ".>"} {
			require.NoError(tb, account.AddWeightedMappings("$JS.API.DIRECT.GET."+stream+end, server.NewMapDest("behind."+stream+end, 50)))
		}
	}
	url := Custom(tb, func(o *server.Options) { o.Accounts = []*server.Account{account} })
	nc := Connect(tb, url)
	_, err := nc.Subscribe("behind.>", func(msg *nats.Msg) {
		_ = msg.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"No Results"}}}) // it fails only when the test ends
	})
	require.NoError(tb, err)
	require.NoError(tb, nc.Flush())
	return url
}
