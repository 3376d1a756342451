package natsd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
)

// Issue 13, F6: a consumer whose files are damaged can be made again, and the others stay what they were.
func TestStart_SetsDamagedConsumersAside(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		file    string
		content string // "": the file is removed
	}{
		"state torn":          {"o.dat", "abc"},
		"description torn":    {"meta.inf", `{"Created":`},
		"description missing": {"meta.inf", ""},
		"checksum missing":    {"meta.sum", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := natsd.Options{StoreDir: t.TempDir(), DontListen: true}
			consumers := twoConsumers(t, opts)
			file := filepath.Join(consumers, "broken", damage.file)
			overwrite(t, file, []byte(damage.content))
			if damage.content == "" {
				require.NoError(t, os.Remove(file))
			}

			js := dial(t, "", nats.InProcessServer(start(t, opts)))
			stream, err := js.Stream(t.Context(), "S")
			require.NoError(t, err)
			whole, err := stream.Consumer(t.Context(), "whole")
			require.NoError(t, err)
			require.Equal(t, uint64(1), whole.CachedInfo().AckFloor.Stream)
			_, err = stream.CreateConsumer(t.Context(), consumer("broken"))
			require.NoError(t, err)
			kept, err := filepath.Glob(filepath.Join(opts.StoreDir, natsd.DamagedDir, "S.broken.*"))
			require.NoError(t, err)
			require.Len(t, kept, 1)
		})
	}
}

// A stream that a newer server wrote is not served by this one, and stays as it is.
func TestStart_LeavesStreamsOfNewerServers(t *testing.T) {
	t.Parallel()
	opts := natsd.Options{StoreDir: t.TempDir(), DontListen: true}
	consumers := twoConsumers(t, opts)
	meta := filepath.Join(consumers, "broken", "meta.inf")
	text, err := os.ReadFile(meta)
	require.NoError(t, err)
	overwrite(t, meta, append([]byte(`{"of_a_newer_server":true,`), text[1:]...))
	start(t, opts)
	require.DirExists(t, filepath.Join(consumers, "broken"))
	require.DirExists(t, filepath.Join(consumers, "whole"))
	require.NoDirExists(t, filepath.Join(opts.StoreDir, natsd.DamagedDir))
}

// twoConsumers has a server make two consumers that settled a message each, ends it, and returns their directory.
func twoConsumers(t *testing.T, opts natsd.Options) string {
	t.Helper()
	s, err := natsd.Start(t.Context(), opts)
	require.NoError(t, err)
	js := dial(t, "", nats.InProcessServer(s))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.one", []byte("1"))
	require.NoError(t, err)
	for _, name := range []string{"whole", "broken"} {
		c, err := stream.CreateConsumer(t.Context(), consumer(name))
		require.NoError(t, err)
		msg, err := c.Next()
		require.NoError(t, err)
		require.NoError(t, msg.DoubleAck(t.Context()))
	}
	js.Conn().Close()
	require.NoError(t, s.Shutdown())
	found, err := filepath.Glob(filepath.Join(opts.StoreDir, "jetstream", "*", "streams", "S", "obs"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

func consumer(name string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy}
}

func overwrite(t *testing.T, file string, content []byte) {
	t.Helper()
	require.FileExists(t, file)
	require.NoError(t, os.WriteFile(file, content, 0o600))
}
