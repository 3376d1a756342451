package eventlog_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// gate is a way to a server that can be closed.
type gate struct {
	to *natstest.Server

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

var errClosed = errors.New("closed")

func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errClosed
	}
	conn, err := g.to.InProcessConn()
	g.conns = append(g.conns, conn)
	return conn, err
}

func (g *gate) set(t *testing.T, closed bool) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	for _, conn := range g.conns {
		require.NoError(t, conn.Close())
	}
	g.conns = nil
}

// What failed while the connection was gone is not sent when it is there again: by then another replica has done it, or it was
// reported as not done, and the log may have forgotten its id.
func TestPublish_FailedOneIsNotStoredAfterReconnect(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	way := &gate{to: server}
	store := connected(t, natsstore.Options{Conn: way})
	require.NoError(t, store.core.Provision(t.Context()))
	publish := func(id string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := store.Publish(ctx, sluice.DefaultNamespace, []sluice.Event{{Namespace: sluice.DefaultNamespace, ID: id, Path: "/a"}})
		return err
	}
	ready := func() bool { return store.core.Ready(t.Context()) == nil }
	require.NoError(t, publish("before", 10*time.Second))
	way.set(t, true)
	require.Eventually(t, func() bool { return !ready() }, time.Minute, 10*time.Millisecond)
	require.Error(t, publish("meanwhile", 300*time.Millisecond))
	waits := make(chan error, 1)
	go func() { waits <- publish("patient", 20*time.Second) }()
	way.set(t, false)
	require.Eventually(t, ready, time.Minute, 10*time.Millisecond)
	require.NoError(t, <-waits)
	require.NoError(t, publish("after", 10*time.Second))
	page, err := store.Events(t.Context(), sluice.DefaultNamespace, model.EventQuery{})
	require.NoError(t, err)
	var ids []string
	for _, e := range page.Events {
		ids = append(ids, e.ID)
	}
	require.Equal(t, []string{"before", "patient", "after"}, ids)
}
