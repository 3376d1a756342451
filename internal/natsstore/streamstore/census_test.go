package streamstore_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13: a NATS that does not answer in time is asked again by a starting server, which an error without this code ends.
func TestCounts_SilentStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	url := natstest.Custom(t, func(opts *server.Options) {
		silent := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.LIST"}}}
		opts.Users = []*server.User{{Username: "u", Permissions: silent}}
		opts.NoAuthUser = "u"
	})
	store := storetest.Connect(t, natsstore.Options{URL: url})
	_, err := streamstore.New(store.Store).Counts(t.Context())
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "%v", err)
}
