package records_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
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

// A subscription that is deleted and made again in another mode, so quickly that only the last of it is told, wakes no worker
// any more.
func TestMode_ChangeEndsWakes(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	var posts atomic.Int64
	s.post = func(wake.Letter) (int, string) {
		posts.Add(1)
		return 200, `{"done":true}`
	}
	tell := make(chan *sluice.Subscription)
	node, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) { ports.Watch = shownWatcher{tell} })
	require.NoError(t, err)
	defer node.stop()
	tell <- s.sub
	_, err = s.append("/a/1")
	require.NoError(t, err)
	require.True(t, soon(time.Minute, func() bool { return posts.Load() == 1 }))
	other := *s.sub
	other.Mode, other.CreatedAt = sluice.Push, time.Now().UTC()
	tell <- &other
	require.True(t, soon(time.Minute, func() bool { return len(node.engine.Gauges()) == 0 }), "no engine runs its clocks")
}

// A subscription that is paused and goes on at once is served by one runner at a time: the next one begins when what the one
// before it has under way has ended, and until then it is not given to another process.
func TestResume_WaitsForTheFormerRunner(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	began, release := make(chan struct{}, 16), make(chan struct{})
	s.post = func(wake.Letter) (int, string) {
		began <- struct{}{}
		<-release
		return 200, `{"done":true}`
	}
	tell, owns := make(chan *sluice.Subscription), askedOwner{make(chan func() <-chan struct{}, 1)}
	node, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) { ports.Watch, ports.Owns = shownWatcher{tell}, owns })
	require.NoError(t, err)
	defer node.stop()
	defer close(release)
	changed := <-owns.changed
	tell <- s.sub
	_, err = s.append("/a/1")
	require.NoError(t, err)
	<-began
	paused := *s.sub
	paused.State = sluice.Paused
	tell <- &paused
	tell <- &paused // the first has been taken then
	settled := changed()
	tell <- s.sub
	select {
	case <-began:
		require.Fail(t, "two serve it at once")
	case <-settled:
		require.Fail(t, "another process may serve it, too")
	case <-time.After(200 * time.Millisecond): // long enough for the other runner
	}
}

// askedOwner owns everything, and hands out how it would say that this has changed.
type askedOwner struct{ changed chan func() <-chan struct{} }

// Run hands out how to say that something has changed.
func (o askedOwner) Run(ctx context.Context, changed func() <-chan struct{}) error {
	o.changed <- changed
	<-ctx.Done()
	return ctx.Err()
}

// Owns says yes.
func (askedOwner) Owns(string) bool { return true }
