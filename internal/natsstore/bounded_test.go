package natsstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A write that was given up while NATS was away is not made after its return: another replica may have done the work by then.
func TestWrites_GivenUpWhileDisconnectedAreNotMade(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	b := records(store)
	stays, err := b.Put(t.Context(), "stays", record{1}, 0)
	require.NoError(t, err)
	server.Stop(t)
	require.Eventually(t, func() bool { return !store.Conn().IsConnected() }, time.Minute, time.Millisecond)
	given, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, write := range map[string]func() error{
		"create": func() error { _, err := b.Put(given, "new", record{2}, 0); return err },
		"update": func() error { _, err := b.Put(given, "stays", record{2}, stays); return err },
		"delete": func() error { return b.Delete(given, "stays", stays) },
		"publish": func() error {
			_, err := store.JetStream().PublishMsg(given, &nats.Msg{Subject: streams.Names{}.KeySubject(streams.Lanes, "published"), Data: []byte("{}")})
			return err
		},
	} {
		require.ErrorIs(t, write(), nats.ErrConnectionReconnecting, name)
	}
	server.Start(t)
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
	got, at, err := b.Get(t.Context(), "stays")
	require.NoError(t, err)
	require.Equal(t, []any{record{1}, stays}, []any{got, at})
	for _, key := range []string{"new", "published"} {
		_, _, err = b.Get(t.Context(), key)
		requireCode(t, sluice.NotFound, err)
	}
	_, err = b.Put(t.Context(), "new", record{3}, 0)
	require.NoError(t, err)
}

// A write that is begun during an outage waits for its end, for a while, and ends with the store.
func TestWrites_WaitForTheConnection(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: server})
	require.NoError(t, err)
	require.NoError(t, store.Provision(t.Context()))
	server.Stop(t)
	require.Eventually(t, func() bool { return !store.Conn().IsConnected() }, time.Minute, time.Millisecond)
	reached := make(chan error, 1)
	go func() { reached <- store.Reachable(t.Context()) }()
	server.Start(t)
	if err := <-reached; err != nil { // a slow machine
		require.ErrorIs(t, err, nats.ErrConnectionReconnecting)
	}
	server.Stop(t)
	require.Eventually(t, func() bool { return !store.Conn().IsConnected() }, time.Minute, time.Millisecond)
	go func() {
		_, err := store.JetStream().PublishMsg(t.Context(), nats.NewMsg(streams.Names{}.KeySubject(streams.Lanes, "k")))
		reached <- err
	}()
	store.Close()
	require.ErrorIs(t, <-reached, nats.ErrConnectionClosed)
}
