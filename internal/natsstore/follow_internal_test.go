package natsstore

import (
	"bytes"
	"log/slog"
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

// withMessages returns a store in a directory, with some messages, on a path each, and the server and the log of the store.
func withMessages(t *testing.T, dir string, count int) (s *Store, server *natstest.Server, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	server = natstest.NewWith(t, natsd.Options{StoreDir: dir, DontListen: true})
	s, err := Connect(t.Context(), Options{Conn: server, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Provision(t.Context()))
	for i := range count {
		_, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default." + string(rune('a'+i)), Data: []byte("message " + string(rune('a'+i)))})
		require.NoError(t, err)
	}
	return s, server, log
}

// waysToFollow are a reader of all messages, and one of the last of each path.
func waysToFollow() map[string]jetstream.DeliverPolicy {
	return map[string]jetstream.DeliverPolicy{"all": jetstream.DeliverAllPolicy, "last of each path": jetstream.DeliverLastPerSubjectPolicy}
}

// Messages that are removed while they are read are no damage.
func TestFollow_RemovedMessagesAreNoDamage(t *testing.T) {
	t.Parallel()
	for name, policy := range waysToFollow() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, log := withMessages(t, t.TempDir(), 20)
			stream, err := s.js.Stream(t.Context(), "EVENTS_default")
			require.NoError(t, err)
			ended := false
			err = s.Follow(t.Context(), "EVENTS_default", jetstream.ConsumerConfig{DeliverPolicy: policy, FilterSubject: "events.default.>"}, 1, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
				if ended = msg == nil; !ended {
					return true, stream.Purge(t.Context())
				}
				return false, nil
			})
			require.NoError(t, err)
			require.True(t, ended)
			require.Empty(t, log.String())
		})
	}
}

// Issue 13, F5.
func TestFollow_DamagedMessagesAreLogged(t *testing.T) {
	t.Parallel()
	for name, policy := range waysToFollow() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, server, log := withMessages(t, dir, 3)
			again := s.Reconnected()
			server.Stop(t)
			blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "EVENTS_default", "msgs", "*.blk"))
			require.NoError(t, err)
			require.Len(t, blocks, 1)
			data, err := os.ReadFile(blocks[0])
			require.NoError(t, err)
			data[bytes.Index(data, []byte("message c"))] ^= 1
			require.NoError(t, os.WriteFile(blocks[0], data, 0o600))
			server.Start(t)
			require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
			<-again // its handler ends those who read
			read := 0
			err = s.Follow(t.Context(), "EVENTS_default", jetstream.ConsumerConfig{DeliverPolicy: policy, FilterSubject: "events.default.>"}, 10, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
				read++
				return msg != nil, nil
			})
			require.NoError(t, err)
			require.Equal(t, 3, read, "two messages, and the end")
			require.Contains(t, log.String(), "cannot be read")
			require.Contains(t, log.String(), "messages=1")
		})
	}
}
