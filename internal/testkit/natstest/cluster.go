package natstest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

const clusterSize, clusterPatience = 3, 30 * time.Second

// Cluster is three servers that replicate to one another, on the loopback address. It is not safe
// for concurrent use.
type Cluster struct {
	servers []*server.Server
	options []*server.Options
}

// NewCluster returns a cluster that ends with the test. It takes about five seconds to be ready, so
// a package should use few, and none with -short. It waits until no other test on the machine has a
// cluster.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	alone(tb)
	turn(tb, filepath.Join(os.TempDir(), "sluice-test-cluster-"+strconv.Itoa(os.Getuid())))
	routes := freeAddresses(tb)
	c := &Cluster{}
	for i, route := range routes {
		port, err := strconv.Atoi(route.Port())
		require.NoError(tb, err)
		c.options = append(c.options, &server.Options{
			ServerName: "n" + strconv.Itoa(i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: tb.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		c.servers = append(c.servers, c.start(tb, i))
	}
	for _, s := range c.servers {
		require.True(tb, s.ReadyForConnections(clusterPatience))
	}
	require.Eventually(tb, func() bool {
		return c.servers[0].JetStreamIsCurrent() && c.servers[1].JetStreamIsCurrent() && c.servers[2].JetStreamIsCurrent()
	}, clusterPatience, 20*time.Millisecond)
	return c
}

// turn locks a file until the test ends, and first waits while another test, in any process, has
// locked it. Several clusters at the same time would keep a machine so busy that requests take longer
// than a store waits for them.
func turn(tb testing.TB, file string) {
	tb.Helper()
	lock := flock.New(file)
	_, err := lock.TryLockContext(tb.Context(), 50*time.Millisecond)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, lock.Unlock()) })
}

func (c *Cluster) start(tb testing.TB, i int) *server.Server {
	tb.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	require.NoError(tb, err)
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	s.Start()
	return s
}

// LeaveBehind stops a server that does not lead a stream, calls meanwhile, and restarts the server.
// The server then lags behind until it has caught up. The server does not lead the cluster either.
// LeaveBehind fails the test if there is no such server.
func (c *Cluster) LeaveBehind(tb testing.TB, stream string, meanwhile func()) {
	tb.Helper()
	for i, s := range c.servers {
		if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) || s.JetStreamIsLeader() {
			continue
		}
		s.Shutdown()
		s.WaitForShutdown()
		meanwhile()
		c.servers[i] = c.start(tb, i)
		return
	}
	require.Fail(tb, "nobody follows "+stream)
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.ClientURL()
	}
	return strings.Join(urls, ",")
}

// StopLeader stops the server that leads the stream; it stays stopped. It fails the test if no
// server leads it.
func (c *Cluster) StopLeader(tb testing.TB, stream string) {
	tb.Helper()
	for _, s := range c.servers {
		if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			s.Shutdown()
			s.WaitForShutdown()
			return
		}
	}
	require.Fail(tb, "nobody leads "+stream)
}

// freeAddresses returns an address for each server. The addresses were free when it looked. They
// must be chosen in advance, because the servers must know one another's before they start.
func freeAddresses(tb testing.TB) []*url.URL {
	tb.Helper()
	addresses := make([]*url.URL, clusterSize)
	for i := range addresses {
		var config net.ListenConfig
		l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		defer func() { require.NoError(tb, l.Close()) }()
		addresses[i] = &url.URL{Scheme: "nats", Host: l.Addr().String()}
	}
	return addresses
}
