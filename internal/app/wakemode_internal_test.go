package app

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shownWatcher tells of subscriptions what a test says.
type shownWatcher struct{ tell <-chan *sluice.Subscription }

// Watch tells of subscriptions.
func (w shownWatcher) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	change("", nil)
	for {
		select {
		case sub := <-w.tell:
			change(sub.ID, sub)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A subscription that is deleted and made again in another mode, so quickly that only the last of it is told, wakes nobody
// any more.
func TestASubscriptionThatIsOfAnotherModeNowWakesNobody(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	var posts atomic.Int64
	s.post = func(wake.Letter) (int, string) {
		posts.Add(1)
		return 200, `{"done":true}`
	}
	tell := make(chan *sluice.Subscription)
	node, err := s.node(store, true, func(ports *wake.Ports, _ *wake.Options) { ports.Watch = shownWatcher{tell} })
	require.NoError(t, err)
	defer node.stop()
	tell <- s.sub
	_, err = s.append("/a/1")
	require.NoError(t, err)
	require.True(t, soon(10*time.Second, func() bool { return posts.Load() == 1 }))
	other := *s.sub
	other.Mode, other.CreatedAt = sluice.Push, time.Now().UTC()
	tell <- &other
	require.True(t, soon(10*time.Second, func() bool { return len(node.engine.Gauges()) == 0 }), "nobody runs its clocks")
}
