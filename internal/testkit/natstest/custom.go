package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// Custom returns the address of a NATS server that Sluice does not run, with JetStream on the
// loopback address. Change may change its options. It is shut down when the test ends. It does not
// have the settings of Sluice's own server.
func Custom(tb testing.TB, change func(*server.Options)) string {
	tb.Helper()
	return custom(tb, change).ClientURL()
}

func custom(tb testing.TB, change func(*server.Options)) *server.Server {
	tb.Helper()
	alone(tb)
	opts := &server.Options{
		ServerName: "elsewhere", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: tb.TempDir(), NoSigs: true, NoLog: true,
	}
	change(opts)
	s, err := server.NewServer(opts)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	s.Start()
	require.True(tb, s.ReadyForConnections(10*time.Second))
	return s
}
