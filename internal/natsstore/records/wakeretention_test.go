package records_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// forget has what is stored at a sequence leave the log, as retention does.
func (s *wakeSite) forget(t *testing.T, server *natstest.Server, seq uint64) {
	t.Helper()
	js := natstest.Dial(t, "", nats.InProcessServer(server), nats.Nkey(server.Login()))
	log, err := js.Stream(t.Context(), streams.Names{}.EventsStream(s.sub.Namespace))
	require.NoError(t, err)
	require.NoError(t, log.DeleteMsg(t.Context(), seq))
}

// Once what a consumer was woken for has left the log, with any rest of its stream, it sleeps: it is not woken again
// and again for what is not there (S1-16).
func TestRetention_ExpiredEventsWakeNoConsumerAgain(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]int{"nothing is left": 0, "what was acknowledged is left": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.New(t)
			s := openSite(t, storeOn(t, server), "n", sluice.Policy{Retry: sluice.Retry{Steps: []sluice.Duration{sluice.Duration(20 * time.Millisecond)}, MaxAttempts: 1000, Preset: "custom"}}, 1)
			var status atomic.Int64
			var posts atomic.Int64
			status.Store(200)
			s.post = func(wake.Letter) (int, string) {
				posts.Add(1)
				return int(status.Load()), `{"done":true}`
			}
			node, err := s.node(s.store, true, nil)
			require.NoError(t, err)
			defer node.stop()
			for range earlier {
				_, err = s.append("/a/1")
				require.NoError(t, err)
				require.True(t, soon(time.Minute, func() bool { return posts.Load() > 0 && s.record("/a/1").State == sluice.WakeIdle }))
			}
			status.Store(500)
			seq, err := s.append("/a/1")
			require.NoError(t, err)
			require.True(t, soon(time.Minute, func() bool { return s.record("/a/1").Failures > 1 }))
			s.forget(t, server, seq)
			status.Store(200)
			require.True(t, soon(time.Minute, func() bool { return s.record("/a/1").State == sluice.WakeIdle }))
			_, err = s.append("/a/2") // other work goes on while this one is woken and comes to rest
			require.NoError(t, err)
			require.True(t, soon(time.Minute, func() bool { c := s.record("/a/2"); return c.Epoch == 1 && c.State == sluice.WakeIdle }))
			require.Equal(t, uint64(earlier+1), s.record("/a/1").Epoch)
			_, err = s.append("/a/1")
			require.NoError(t, err)
			require.True(t, soon(time.Minute, func() bool { return s.record("/a/1").Epoch == uint64(earlier+2) }), "what is new wakes")
		})
	}
}
