package deliverystore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13: an event of a parked lane that was delivered and not acknowledged before the pause is counted once.
func TestStatus_CountsUnacknowledgedEventsOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		paths []sluice.Path
		acked []int // indices of the deliveries; the lane /bad is parked from the first one on
		read  int   // deliveries
		want  uint64
	}{
		"the tail of the lane":           {[]sluice.Path{"/bad", "/bad", "/bad"}, []int{0}, 3, 3},
		"all of the lane":                {[]sluice.Path{"/bad", "/bad"}, nil, 2, 2},
		"between acknowledged ones":      {[]sluice.Path{"/bad", "/good", "/bad"}, []int{0, 2}, 3, 3},
		"behind what was delivered":      {[]sluice.Path{"/bad", "/bad", "/bad", "/good"}, []int{0}, 2, 4},
		"none of the lane":               {[]sluice.Path{"/bad", "/bad", "/good", "/good"}, []int{0, 1}, 4, 4},
		"delivered ones are not counted": {[]sluice.Path{"/bad", "/good", "/bad"}, []int{0, 1}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, server := provisioned(t)
			sub := &sluice.Subscription{
				ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/*", Lifecycle: sluice.Lifecycle{State: sluice.Paused, CreatedAt: time.Now().UTC()},
				From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
			}
			sub.SetDefaults()
			store.keep(t, sub)
			require.NoError(t, store.EnsureConsumers(t.Context(), sub))
			store.publish(t, tt.paths...)
			c, err := natstest.JetStream(t, server).Consumer(t.Context(), "EVENTS_default", "s")
			require.NoError(t, err)
			_, err = store.Park(t.Context(), sub, sluice.Parked{Lane: "s.p.bad", Path: "/bad", FromSeq: 1, Attempts: 1, NextAt: time.Now().Add(time.Hour)}, 0)
			require.NoError(t, err)

			batch, err := c.Fetch(tt.read)
			require.NoError(t, err)
			var deliveries []jetstream.Msg
			for m := range batch.Messages() {
				deliveries = append(deliveries, m)
			}
			require.Len(t, deliveries, tt.read)
			for _, i := range tt.acked {
				require.NoError(t, deliveries[i].DoubleAck(t.Context()))
			}
			status, err := store.Status(t.Context(), sub)
			require.NoError(t, err)
			require.Equal(t, tt.read-len(tt.acked), status.InFlight)
			require.Equal(t, tt.want, status.Undelivered)
		})
	}
}
