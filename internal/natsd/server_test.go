package natsd_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(tb testing.TB, opts natsd.Options) *natsd.Server {
	tb.Helper()
	s, err := natsd.Start(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Shutdown()) })
	return s
}

func dial(tb testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return natstest.Dial(tb, url, opts...)
}

func TestServer_InProcessOneDoesNotListen(t *testing.T) {
	t.Parallel()
	s := start(t, natsd.Options{StoreDir: t.TempDir(), DontListen: true})
	require.Empty(t, s.ClientURL())
	info, err := dial(t, "", nats.InProcessServer(s)).AccountInfo(t.Context())
	require.NoError(t, err)
	require.Positive(t, info.API.Level)
}

// refusal returns why a login is refused, and tries again if it took the two seconds that the server gives it.
func refusal(url string, opts ...nats.Option) error {
	for {
		_, err := nats.Connect(url, append(opts, nats.Timeout(patience))...)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "authentication timeout") {
			return err
		}
	}
}

func TestServer_ListensOnAFreePortWithAPassword(t *testing.T) {
	t.Parallel()
	s := start(t, natsd.Options{StoreDir: t.TempDir(), User: "app", Password: "sesame"})
	require.True(t, strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:"), s.ClientURL())
	require.ErrorIs(t, refusal(s.ClientURL()), nats.ErrAuthorization)
	_, err := dial(t, s.ClientURL(), nats.UserInfo("app", "sesame")).AccountInfo(t.Context())
	require.NoError(t, err)
}

func TestServer_KeepsItsDataAcrossARestart(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{natsd.SyncAlways, "1s", ""} {
		t.Run("sync "+sync, func(t *testing.T) {
			t.Parallel()
			opts := natsd.Options{StoreDir: t.TempDir(), DontListen: true, Sync: sync}
			s, err := natsd.Start(t.Context(), opts)
			require.NoError(t, err)
			js := dial(t, "", nats.InProcessServer(s))
			_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
			require.NoError(t, err)
			_, err = js.Publish(t.Context(), "s.one", []byte("1"))
			require.NoError(t, err)
			js.Conn().Close()
			require.NoError(t, s.Shutdown())
			require.NoError(t, s.Shutdown(), "a second time")

			s = start(t, opts)
			stream, err := dial(t, "", nats.InProcessServer(s)).Stream(t.Context(), "S")
			require.NoError(t, err)
			require.Equal(t, uint64(1), stream.CachedInfo().State.LastSeq)
		})
	}
}

func TestServer_TakesMoreThanAThousandConsumers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes a thousand consumers")
	}
	s := start(t, natsd.Options{StoreDir: t.TempDir(), DontListen: true, Sync: "2m"})
	js := dial(t, "", nats.InProcessServer(s))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.MemoryStorage,
	})
	require.NoError(t, err)
	for i := range 1001 {
		_, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "c" + strconv.Itoa(i), MemoryStorage: true})
		require.NoError(t, err)
	}
}

func TestDataDirectory_BelongsToOneServer(t *testing.T) {
	t.Parallel()
	opts := natsd.Options{StoreDir: filepath.Join(t.TempDir(), "made", "here"), DontListen: true}
	start(t, opts)
	info, err := os.Stat(opts.StoreDir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	_, err = natsd.Start(t.Context(), opts)
	require.ErrorContains(t, err, "is used by another process")
}

func TestStart_FailureNamesTheReasonAndFreesTheDirectory(t *testing.T) {
	t.Parallel()
	taken := start(t, natsd.Options{StoreDir: t.TempDir()})
	_, port, _ := strings.Cut(strings.TrimPrefix(taken.ClientURL(), "nats://"), ":")
	number, err := strconv.Atoi(port)
	require.NoError(t, err)

	opts := natsd.Options{StoreDir: t.TempDir(), Port: number}
	_, err = natsd.Start(t.Context(), opts)
	require.ErrorContains(t, err, "address already in use")
	opts.Port = 0
	start(t, opts)
}

func TestOptions_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		give natsd.Options
		want string
	}{
		{"no directory", natsd.Options{}, "no data directory"},
		{"sync is no duration", natsd.Options{StoreDir: t.TempDir(), Sync: "often"}, `sync "often"`},
		{"sync is not positive", natsd.Options{StoreDir: t.TempDir(), Sync: "0s"}, `sync "0s"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := natsd.Start(t.Context(), test.give)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestStart_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	opts := natsd.Options{StoreDir: t.TempDir(), DontListen: true}
	_, err := natsd.Start(ctx, opts)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	start(t, opts)
}
