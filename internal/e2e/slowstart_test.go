package e2e_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/streams"
)

// Fault F9: a NATS that is reached and answers nothing for the first while, as a cluster that elects its leaders, does not end
// the start. Each row is what the start asks once the streams are there, and how often that is lost.
func TestStart_WaitsForSilentNATS(t *testing.T) {
	t.Parallel()
	for asked, lost := range map[string]struct {
		question func(streams.Names) string
		times    int32
	}{
		"a key":                    {func(n streams.Names) string { return n.KeySubject("keys", "") }, 1},
		"a reader of keys":         {func(n streams.Names) string { return "$JS.API.CONSUMER.CREATE." + n.BucketStream("keys") + "." }, 2},
		"a reader of types":        {func(n streams.Names) string { return "$JS.API.CONSUMER.CREATE." + n.BucketStream("eventtypes") + "." }, 2},
		"a reader of dead letters": {func(n streams.Names) string { return "$JS.API.CONSUMER.CREATE." + n.DeadLetters() + "." }, 2},
		"the leases":               {func(n streams.Names) string { return "$JS.API.STREAM.INFO." + n.BucketStream("leases") }, 2},
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int32
			at := natstest.Listening(t).ClientURL()
			wire := faulttest.OpenWire(t, hostOf(t, at), func(said []byte) bool {
				return !bytes.Contains(said, []byte(" "+lost.question(namesAt(at)))) || seen.Add(1) > lost.times
			})
			t.Cleanup(wire.Close)
			s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = through(t, wire.Addr(), at) })
			require.Greater(t, seen.Load(), lost.times, "it was asked again")
			s.stop(t)
		})
	}
}

// A server that waits for its NATS is alive and not ready, and can be told to end.
func TestStart_IsAliveWithoutNATS(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"it comes later": true, "it stays away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nats := natstest.Listening(t)
			url := nats.ClientURL()
			nats.Stop(t)
			cfg := config.Default()
			cfg.Data, cfg.Dev, cfg.HTTP.Listen, cfg.NATS.URL, cfg.Secrets.Key = t.TempDir(), true, unused(t), url, sharedKey
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- app.Run(ctx, cfg, app.Options{Version: "test", Log: endOfLog(t), Silent: true}) }()
			status := func(path string) int {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+cfg.HTTP.Listen+path, http.NoBody)
				require.NoError(t, err)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return 0 // it does not listen yet
				}
				require.NoError(t, res.Body.Close())
				return res.StatusCode
			}
			eventually(t, func() bool { return status("/livez") == http.StatusOK }, "it is alive")
			require.Equal(t, http.StatusServiceUnavailable, status("/readyz"))
			if comes {
				nats.Start(t)
				eventually(t, func() bool { return status("/readyz") == http.StatusOK }, "it is ready")
				nats.Stop(t)
				eventually(t, func() bool { return status("/livez") == http.StatusOK }, "it stays alive")
			}
			cancel()
			require.NoError(t, <-ended)
			require.Zero(t, status("/livez"))
		})
	}
}

// unused returns an address on which no process listens.
func unused(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// Fault F9: an error that waiting does not change ends the start, with a store elsewhere as well.
func TestStart_EndsAtLastingErrors(t *testing.T) {
	t.Parallel()
	nats := natstest.Listening(t)
	run := func(change func(*config.Config)) error {
		cfg := config.Default()
		cfg.NATS.Prefix = natstest.Prefix(nats.ClientURL())
		cfg.Data, cfg.Dev, cfg.HTTP.Listen, cfg.NATS.URL, cfg.Secrets.Key = t.TempDir(), true, "127.0.0.1:0", nats.ClientURL(), sharedKey
		change(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := app.Run(ctx, cfg, app.Options{Version: "test", Silent: true})
		require.NoError(t, ctx.Err(), "it ends by itself")
		return err
	}
	require.ErrorContains(t, run(func(c *config.Config) { c.NATS.Replicas = 3 }), "replicas > 1 not supported in non-clustered mode")

	first := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = nats.ClientURL() })
	first.stop(t)
	require.Error(t, run(func(c *config.Config) { c.Secrets.Key = "YW5vdGhlciBrZXksIHdoaWNoIG9wZW5zIG5vdGhpbmc=" }))
}
