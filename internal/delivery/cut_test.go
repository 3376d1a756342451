package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S4-17, C01: acknowledgements that a broken connection swallowed do not bring their events
// back, neither at once nor when their ack wait is over.
func TestAck_LostOnesRepeatNothing(t *testing.T) {
	withConsumers(t)
	t.Parallel()
	server := natstest.Listening(t)
	var deaf atomic.Bool // acknowledgements are lost
	between := faulttest.OpenWire(t, strings.TrimPrefix(server.ClientURL(), "nats://"), func(said []byte) bool {
		return !deaf.Load() || faulttest.KindOf(said, []faulttest.Kind{{"ack", "$JS.ACK.", ""}}) == ""
	})
	t.Cleanup(between.Close)
	store := storetest.Connect(t, natsstore.Options{URL: "nats://" + between.Addr()})
	require.NoError(t, store.Provision(t.Context()))
	w := newWorld(t, store, "n", sluice.Policy{Window: 4, Retry: quickRetries})
	proc := w.start(t)
	defer proc.stop()
	deaf.Store(true)
	for i := range 3 {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i)), fmt.Sprint("lost", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 3 && inFlight(t, w) == 3 }, patience, 10*time.Millisecond)
	deaf.Store(false)
	for i := range 100 { // more than the server remembers
		w.publish(t, "/a/1", fmt.Sprint("more", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 103 }, patience, 10*time.Millisecond)
	between.Cut()
	require.Eventually(t, func() bool { return inFlight(t, w) == 0 }, patience, 50*time.Millisecond, "what was settled is acknowledged")
	w.publish(t, "/a/1", "last")
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 104 }, patience, 10*time.Millisecond)
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	for id, n := range w.endpoint.tries {
		require.Equal(t, 1, n, id)
	}
}

func inFlight(t *testing.T, w *world) int {
	t.Helper()
	status, err := w.deliveries.Status(t.Context(), w.sub)
	if err != nil {
		return -1
	}
	return status.InFlight
}

// tellWarn gets an element when something is logged as a warning.
type tellWarn chan struct{}

func (tellWarn) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (c tellWarn) WithAttrs([]slog.Attr) slog.Handler             { return c }
func (c tellWarn) WithGroup(string) slog.Handler                  { return c }

func (c tellWarn) Handle(context.Context, slog.Record) error {
	select {
	case c <- struct{}{}:
	default:
	}
	return nil
}

// What keeps a subscription from being served may be its own settings: a change of them counts
// before it could be served once.
func TestConfigure_ReachesAnUnservableSubscription(t *testing.T) {
	withConsumers(t)
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 50})
	op.limit("n", 10)
	failed := make(tellWarn, 1)
	w.log = slog.New(failed)
	proc := w.start(t)
	defer proc.stop()
	<-failed
	w.watch.change(func(sub *sluice.Subscription) { sub.Policy.Window = 5 })
	w.publishMany(t, 1, 3)
	eventually(t, "the events arrive", func() bool { return w.endpoint.delivered() == 3 })
}
