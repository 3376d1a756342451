package natsstore_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A server that needs longer for each try than the read waits for it is heard all the same.
func TestDirect_LateAnswerCounts(t *testing.T) {
	t.Parallel()
	url, hold := natstest.Held(t)
	store := connected(t, natsstore.Options{URL: url})
	require.NoError(t, store.Provision(t.Context()))
	_, err := store.log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{Path: "/a", ID: "1"}, {Path: "/a", ID: "2"}})
	require.NoError(t, err)
	requests, answer := hold("$JS.API.DIRECT.GET.EVENTS_default")
	type read struct {
		msgs []*nats.Msg
		err  error
	}
	done := make(chan read, 1)
	go func() {
		msgs, _, err := store.Direct(t.Context(), sluice.DefaultNamespace, natsstore.DirectRequest{Batch: 10, Subject: ">"})
		done <- read{msgs, err}
	}()
	first := <-requests
	again := <-requests
	require.NotEqual(t, first.Reply, again.Reply)
	answer(first)
	got := <-done
	require.NoError(t, got.err)
	require.Len(t, got.msgs, 2)
}
