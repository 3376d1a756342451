package natsstore

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// S1-110: who reads on behind a sequence is told if the stream was made again meanwhile, and does not wait for what is there.
func TestTailOn_RecreatedStreamIsTold(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	s, err := Connect(t.Context(), Options{Conn: server})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	config := jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}}
	filled := func(n int) jetstream.Stream {
		stream, err := s.js.CreateStream(t.Context(), config)
		require.NoError(t, err)
		for range n {
			_, err := s.js.Publish(t.Context(), "log", nil)
			require.NoError(t, err)
		}
		return stream
	}
	read := func(after uint64) error {
		return s.TailOn(t.Context(), "LOG", after, func(*nats.Msg, *nats.MsgMetadata) error { return errors.ErrUnsupported })
	}
	was := filled(5)
	require.NoError(t, s.isStill(t.Context(), was))
	require.NoError(t, s.js.DeleteStream(t.Context(), "LOG"))
	filled(2)
	require.ErrorIs(t, read(5), ErrRecreated, "it ends before")
	require.ErrorIs(t, s.isStill(t.Context(), was), ErrRecreated, "it may be as long again")
	require.ErrorIs(t, read(1), errors.ErrUnsupported, "the reader's own error")
}
