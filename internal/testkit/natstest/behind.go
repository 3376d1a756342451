package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Answered returns the address of a server like Custom's on which answer, not NATS, gets that many
// percent of the requests to the subjects.
func Answered(tb testing.TB, percent uint8, answer nats.MsgHandler, subjects ...string) string {
	tb.Helper()
	const instead = "answered."
	account := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	for _, subject := range subjects {
		require.NoError(tb, account.AddWeightedMappings(subject, server.NewMapDest(instead+subject, percent)))
	}
	url := Custom(tb, func(o *server.Options) { o.Accounts = []*server.Account{account} })
	nc := Connect(tb, url)
	_, err := nc.Subscribe(instead+">", answer)
	require.NoError(tb, err)
	require.NoError(tb, nc.Flush())
	return url
}

// Behind is Answered as on a cluster with a replica that is far behind: about half of the direct
// reads of the streams find no message. Reads at the leader find all.
func Behind(tb testing.TB, streams ...string) string {
	tb.Helper()
	var subjects []string
	for _, stream := range streams {
		subjects = append(subjects, "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".>")
	}
	return Answered(tb, 50, func(msg *nats.Msg) {
		_ = msg.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"No Results"}}}) // it fails only when the test ends
	}, subjects...)
}
