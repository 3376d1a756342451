package natsstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// stopper is a log that ends something soon after its first line.
type stopper struct {
	bytes.Buffer

	stop func()
}

func (s *stopper) Write(line []byte) (int, error) {
	time.AfterFunc(400*time.Millisecond, s.stop) // several attempts
	return s.Buffer.Write(line)
}

// A server that is away is named in the log, without its password, and not at every attempt.
func TestConnect_NamesServerAwayOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := &stopper{stop: cancel}
	_, err := Connect(ctx, Options{URL: "nats://ann:secret@127.0.0.1:1, nats://127.0.0.1:2", Log: slog.New(slog.NewTextHandler(text, nil))})
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, text.String(), `nats="nats://xxxxx@127.0.0.1:1, nats://127.0.0.1:2"`)
	require.NotContains(t, text.String(), "secret")
	require.Equal(t, 1, strings.Count(text.String(), "msg=connect"), text.String())
}

// A login that took the server too long is tried again: it may be only busy.
func TestConnect_RepeatsALoginThatTookTooLong(t *testing.T) {
	t.Parallel()
	url := natstest.Custom(t, func(o *server.Options) { o.Username, o.Password, o.AuthTimeout = "app", "sesame", 0.01 })
	link := faulttest.NewLink(t, strings.TrimPrefix(url, "nats://"))
	link.Slow(100*time.Millisecond, 0)
	for {
		_, err := nats.Connect("nats://"+link.Addr(), nats.UserInfo("app", "sesame"))
		require.Error(t, err)
		require.True(t, isAway(err), "%v", err)
		if strings.Contains(err.Error(), "Authentication Timeout") {
			return // else the connection was closed before it was read
		}
	}
}
