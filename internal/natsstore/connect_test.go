package natsstore_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestConnect_UsesUserAndPassword(t *testing.T) {
	t.Parallel()
	server := natstest.NewWith(t, natsd.Options{User: "app", Password: "sesame"})
	store := connected(t, natsstore.Options{URL: server.ClientURL(), User: "app", Password: "sesame"})
	require.NoError(t, store.Ready(t.Context()))
	require.NoError(t, store.Provision(t.Context()))
	_, err := store.Namespaces().Get(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
}

func TestConnect_ReportsWrongCredentials(t *testing.T) {
	t.Parallel()
	server := natstest.NewWith(t, natsd.Options{User: "app", Password: "sesame"})
	tests := []struct {
		name string
		give natsstore.Options
		want string
	}{
		{"elsewhere", natsstore.Options{URL: server.ClientURL(), User: "app", Password: "guess"}, "Authorization Violation"},
		{"the embedded server", natsstore.Options{Conn: server, User: "app", Password: "guess"}, "user and password"},
		{"no such file", natsstore.Options{URL: server.ClientURL(), NKeySeedFile: "missing"}, "missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.give.Conn != nil && testing.Short() {
				t.Skip("the server takes ten seconds")
			}
			_, err := natsstore.Connect(t.Context(), test.give)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestConnect_WaitsForTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	url := server.ClientURL()
	server.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, opts := range []natsstore.Options{{URL: url}, {Conn: server}} {
		_, err := natsstore.Connect(ctx, opts)
		require.Error(t, err)
		require.Error(t, ctx.Err(), "it gave up early: %v", err)
	}

	answered := make(chan error)
	go func() {
		store, err := natsstore.Connect(t.Context(), natsstore.Options{URL: url})
		if err == nil {
			store.Close()
		}
		answered <- err
	}()
	server.Start(t)
	require.NoError(t, <-answered)
}

func TestReady_ReturnsAfterAnOutage(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	require.NoError(t, store.Ready(t.Context()))
	is := store.Gauges(t.Context())
	require.True(t, is.Connected)
	require.Positive(t, is.RoundTrip)
	server.Stop(t)
	require.Eventually(t, func() bool {
		return sluice.CodeOf(store.Ready(t.Context())) == sluice.Unavailable
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, model.NATSGauges{}, store.Gauges(t.Context()))
	server.Start(t)
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
	is = store.Gauges(t.Context())
	require.Equal(t, []any{true, uint64(1)}, []any{is.Connected, is.Reconnects})
}

type silent struct{}

func (silent) InProcessConn() (net.Conn, error) { return nil, net.ErrClosed }

func TestConnect_EndsWithItsContextWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := natsstore.Connect(ctx, natsstore.Options{Conn: silent{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
