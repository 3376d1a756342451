package natsstore

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// A slow reader of large messages is sent as many as it asked for, and loses none of them.
func TestPull_SlowReaderLosesNoLargeMessage(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	s, err := Connect(t.Context(), Options{Conn: server})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Provision(t.Context()))
	const count, size = 110, 900 << 10 // more than a client or a server holds by default, 64 MiB
	for range count {
		_, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.a", Data: make([]byte, size)})
		require.NoError(t, err)
	}
	seen, before := uint64(0), s.nc.Stats().InBytes
	err = s.Scan(t.Context(), "EVENTS_default", jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}, func(*nats.Msg, *nats.MsgMetadata) (bool, error) {
		seen++
		if seen == 1 {
			require.Eventually(t, func() bool { return s.nc.Stats().InBytes-before > 8*size }, time.Minute, 10*time.Millisecond)
		}
		require.Less(t, s.nc.Stats().InBytes-before, (seen+followBytes/(1<<20)+1)*size, "no more than may be are on their way")
		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, uint64(count), seen)
}

// Fault F8: a NATS elsewhere may hand deliveries to a connection that is silent, for as long as a request is open there. None is
// open any more when the connection is given up.
func TestPull_ExpiresBeforeLineIsGivenUp(t *testing.T) {
	t.Parallel()
	elsewhere := (&Store{}).deliveryPace(2)
	require.LessOrEqual(t, elsewhere.expiry, pingTimeout)
	require.Greater(t, elsewhere.silence, elsewhere.expiry, "its end is waited for")
	embedded := (&Store{opts: Options{Conn: (*natstest.Server)(nil)}}).deliveryPace(2)
	require.Greater(t, embedded.silence, embedded.heartbeat)
}

// All readers of an embedded server that is too busy for heartbeats would make new consumers at once, and keep it busy.
func TestFollow_EmbeddedServerMayBeBusy(t *testing.T) {
	t.Parallel()
	elsewhere := (&Store{}).followPace(2)
	embedded := (&Store{opts: Options{Conn: (*natstest.Server)(nil)}}).followPace(2)
	require.GreaterOrEqual(t, embedded.silence, 4*elsewhere.silence)
	for _, p := range []pace{elsewhere, embedded} {
		require.GreaterOrEqual(t, p.silence, 2*p.heartbeat)
		require.LessOrEqual(t, p.heartbeat, p.expiry/2, "NATS refuses more")
	}
}
