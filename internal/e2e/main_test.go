package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// serveEnv makes the test binary a server on the data directory that it names.
// The others are optional: a NATS server elsewhere, how long a lease lives there, what secrets are
// sealed with, how long the end may take, how many bytes may be stored, and above how many
// subscriptions a namespace's share one reader.
const (
	serveEnv      = "SLUICE_TEST_SERVE"
	serveNATSEnv  = "SLUICE_TEST_NATS_URL"
	serveLeaseEnv = "SLUICE_TEST_LEASE"
	serveKeyEnv   = "SLUICE_TEST_SECRETS_KEY"
	serveGraceEnv = "SLUICE_TEST_SHUTDOWN_GRACE"
	serveStoreEnv = "SLUICE_TEST_MAX_STORE"
	serveShareEnv = "SLUICE_TEST_SHARED_ABOVE"

	serveModulesEnv = "SLUICE_TEST_MODULES" // the directory of modules
)

// sharedKey seals the secrets of servers that share a NATS.
const sharedKey = "c2hhcmVkIGJ5IHRoZSBzZXJ2ZXJzIG9mIGEgdGVzdCE="

func TestMain(m *testing.M) {
	if natstest.Main() {
		return
	}
	if dir := os.Getenv(serveEnv); dir != "" {
		serveAsChild(dir)
		return
	}
	debug.SetGCPercent(400) // dozens of servers share this process: collecting their garbage took a sixth of its time
	// nats.go leaves it behind if a connection is closed while the first message is being published.
	goleak.VerifyTestMain(plainly{m}, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// plainly removes the program of servers in processes of their own at the end.
type plainly struct{ *testing.M }

func (p plainly) Run() int {
	defer func() { _ = os.RemoveAll(plainDir) }() // or it is left behind in a directory for temporary files
	return p.M.Run()
}

func serveAsChild(dir string) {
	cfg := config.Default()
	cfg.Data, cfg.Dev = dir, true
	cfg.HTTP.Listen, cfg.NATS.Listen, cfg.NATS.URL = os.Getenv("SLUICE_HTTP"), os.Getenv("SLUICE_NATS"), os.Getenv(serveNATSEnv)
	cfg.NATS.Sync, cfg.NATS.Prefix = noSync, natstest.Prefix(cfg.NATS.URL)
	if cfg.NATS.URL != "" {
		cfg.Secrets.Key = cmp.Or(os.Getenv(serveKeyEnv), sharedKey)
	}
	if grace, err := time.ParseDuration(os.Getenv(serveGraceEnv)); err == nil {
		cfg.ShutdownGrace = sluice.Duration(grace)
	}
	if most, err := strconv.ParseInt(os.Getenv(serveStoreEnv), 10, 64); err == nil {
		cfg.NATS.MaxStore = most
	}
	if above, err := strconv.Atoi(os.Getenv(serveShareEnv)); err == nil {
		cfg.Webhooks.SharedAbove = above
	}
	if dir := os.Getenv(serveModulesEnv); dir != "" {
		cfg.Modules.Dirs = []string{dir}
	}
	withTester(&cfg, nil)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	lease, _ := time.ParseDuration(os.Getenv(serveLeaseEnv)) // 0 if it is not set
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx, cfg, app.Options{Log: log, LeaseTTL: lease, Silent: true}); err != nil {
		log.Error("server", slog.Any("error", err))
		os.Exit(1)
	}
}

func subscribe(t *testing.T, api *client.Client, body string) sluice.Subscription {
	t.Helper()
	sub, _, err := api.CreateSubscription(t.Context(), json.RawMessage(body))
	require.NoError(t, err)
	return sub
}
