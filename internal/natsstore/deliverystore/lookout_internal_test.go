package deliverystore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A delivery that comes in place of an expected one says that the expected one left the log, or that a second owner was
// handed it: that one is no dead letter.
func TestLook_SecondOwnersEventIsNotLost(t *testing.T) { // C01, decision 0003
	t.Parallel()
	core, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, err)
	t.Cleanup(core.Close)
	events := eventlog.New(t.Context(), core)
	require.NoError(t, core.Provision(t.Context()))
	s := New(core, events)
	sub := &sluice.Subscription{ID: "s", Namespace: "default", Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Now().UTC()}, From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}}
	sub.SetDefaults()
	_, err = core.Subscriptions().Put(t.Context(), sub.ID, sub, 0)
	require.NoError(t, err)
	require.NoError(t, s.EnsureConsumers(t.Context(), sub))
	for _, id := range []string{"e1", "e2", "e3"} {
		_, err := events.Publish(t.Context(), "default", []sluice.Event{{Namespace: "default", ID: id, Path: "/a"}})
		require.NoError(t, err)
	}
	source, err := s.OpenSource(t.Context(), sub)
	require.NoError(t, err)
	defer source.Close()
	for range 3 {
		require.NoError(t, (<-source.Deliveries()).Receipt.Ack())
	}
	lost := func() (found []span) {
		source.acks[0].again([]span{{2, 2}})
		require.NoError(t, source.Look(t.Context(), func(*sluice.Event) bool { return true }, func(from, to uint64) error {
			found = append(found, span{from, to})
			return nil
		}))
		return found
	}
	require.Empty(t, lost())
	log, err := core.JetStream().Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	require.NoError(t, log.DeleteMsg(t.Context(), 2))
	require.Equal(t, []span{{2, 2}}, lost())
}
