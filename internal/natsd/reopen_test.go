package natsd_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// F3: the server is started again under its clients: they come back by themselves, on the same port and with the same login.
func TestReopen_KeepsDataPortAndLogins(t *testing.T) {
	t.Parallel()
	s := start(t, natsd.Options{StoreDir: t.TempDir(), Users: []natsd.User{ann}})
	url, limit := s.ClientURL(), limitOf(t, s)
	again := nats.MaxReconnects(-1)
	js := dial(t, "", append(within(s), again)...)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", make([]byte, 1<<20-100))
	require.NoError(t, err)
	abroad := natstest.Connect(t, url, nats.UserInfo("ann", "sesame"), again)

	require.NoError(t, s.Reopen(t.Context()))
	require.Equal(t, url, s.ClientURL())
	require.InDelta(t, limit, limitOf(t, s), float64(limit)/2, "what the streams have is part of what they may have")
	require.Eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), "S")
		return err == nil && stream.CachedInfo().State.Msgs == 1 && abroad.IsConnected()
	}, patience, 20*time.Millisecond)

	require.NoError(t, s.Shutdown())
	require.ErrorContains(t, s.Reopen(t.Context()), "shut down")
}

func limitOf(t *testing.T, s *natsd.Server) uint64 {
	t.Helper()
	_, limit, err := s.Storage()
	require.NoError(t, err)
	return limit
}

// What the streams take is theirs at the next start too: three quarters of what they have and what is free.
func TestShare_CountsStoredBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, natsd.Options{StoreDir: dir, DontListen: true})
	before := limitOf(t, s)
	require.NoError(t, s.Shutdown())
	file, err := os.Create(filepath.Join(dir, "jetstream", "large"))
	require.NoError(t, err)
	free, err := natsd.Free(dir)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(int64(free))) // holes take nothing of the disk
	require.NoError(t, file.Close())
	require.Greater(t, limitOf(t, start(t, natsd.Options{StoreDir: dir, DontListen: true})), before+before/2)
}

// A disk that takes files is found to.
func TestProbe_LeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, natsd.Options{StoreDir: dir, DontListen: true})
	require.NoError(t, s.Probe())
	require.NoError(t, s.Intact().Err())
	left, err := filepath.Glob(filepath.Join(dir, ".probe-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Shutdown())
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, s.Probe())
}
