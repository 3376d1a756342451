package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// serveEnv makes the test binary a server on the data directory that it names.
const serveEnv = "SLUICE_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		serveAsChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func serveAsChild(dir string) {
	cfg := config.Default()
	cfg.Data, cfg.Dev = dir, true
	cfg.HTTP.Listen, cfg.NATS.Listen = os.Getenv("SLUICE_HTTP"), os.Getenv("SLUICE_NATS")
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if err := app.Run(context.Background(), cfg, app.Options{Log: log}); err != nil {
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
