package eventlog_test

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// lossy is a server whose connection ends once, instead of passing on an acknowledgement.
type lossy struct {
	*natstest.Server

	loses atomic.Bool
}

func (l *lossy) InProcessConn() (net.Conn, error) {
	conn, err := l.Server.InProcessConn()
	return lossyConn{conn, l}, err
}

type lossyConn struct {
	net.Conn

	server *lossy
}

func (c lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.Contains(b[:n], []byte(`"seq":`)) && c.server.loses.CompareAndSwap(true, false) {
		_ = c.Close() // as if it was lost
		return 0, io.EOF
	}
	return n, err
}

// A write whose answer is lost is not repeated when the log may have forgotten its ID: it would be stored twice.
func TestRetry_EndsWithTheDedupWindow(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(t *testing.T, store rooms) error{
		"event": func(t *testing.T, store rooms) error {
			t.Helper()
			_, err := store.Publish(t.Context(), "brief", batchOf("a", 1))
			return err
		},
		"append": func(t *testing.T, store rooms) error {
			t.Helper()
			_, err := store.CommitPaths(t.Context(), "brief", eventlog.PathCommit{Events: batchOf("a", 1), Fence: eventlog.PathFence{Path: "/b/0"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &lossy{Server: natstest.New(t)}
			store := connected(t, natsstore.Options{Conn: server})
			require.NoError(t, store.core.Provision(t.Context()))
			_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "brief", DedupWindow: sluice.Duration(time.Second)})
			require.NoError(t, err)
			server.loses.Store(true)
			failed := write(t, store) // after a try, which takes longer than the window
			require.False(t, server.loses.Load())
			last, err := store.LastSeq(t.Context(), "brief")
			require.NoError(t, err)
			require.EqualValues(t, 1, last)
			requireCode(t, sluice.Unavailable, failed)
		})
	}
}
