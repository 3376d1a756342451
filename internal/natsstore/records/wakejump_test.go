package records_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A clock that was set back keeps no consumer awake, and puts off no attempt, for as long as it went back.
func TestClock_SetBackDelaysNoConsumer(t *testing.T) { // S1-32, S1-43, S1-120
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "clock", sluice.Policy{Retry: sluice.Retry{Preset: sluice.PresetPersistent}}, 1)
	var ahead, posts atomic.Int64
	var failing atomic.Bool
	failing.Store(true)
	s.post = func(l wake.Letter) (int, string) {
		if l.Path == "/a/failing" && failing.Load() {
			return 500, ""
		}
		posts.Add(1)
		return 200, ""
	}
	clocked := func(_ *wake.Deps, o *wake.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	ahead.Store(int64(2 * time.Hour))
	before, err := s.node(store, true, clocked)
	require.NoError(t, err)
	for _, path := range []sluice.Path{"/a/live", "/a/failing"} {
		_, err := s.append(path)
		require.NoError(t, err)
	}
	require.True(t, soon(time.Minute, func() bool {
		return s.record("/a/live").State == sluice.WakeLive && s.record("/a/failing").Failures > 0
	}))
	before.stop()
	failing.Store(false)
	ahead.Store(0)
	after, err := s.node(store, true, clocked)
	require.NoError(t, err)
	defer after.stop()
	n := 0
	require.True(t, soon(time.Minute, func() bool { // time goes on, by less than it was set back, and something has the clock looked at
		if ahead.Load() < int64(time.Hour) {
			ahead.Add(int64(time.Minute))
		}
		n++
		_, err := s.append(sluice.Path(fmt.Sprint("/a/other", n)))
		return err == nil && s.record("/a/live").Epoch > 1 && s.record("/a/failing").State == sluice.WakeLive
	}))
}

// expiring is ownership that ends without a word.
type expiring struct {
	wake.Ownership

	over    *atomic.Bool
	refused *atomic.Int64
}

func (e expiring) Owns(subscription string) bool {
	if e.over.Load() {
		e.refused.Add(1)
		return false
	}
	return e.Ownership.Owns(subscription)
}

// Issue 13: a lease that has run out, as of a machine that was suspended, wakes no consumer before the engine is told.
func TestWake_SendsNothingWithoutItsLease(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "lease", sluice.Policy{}, 1)
	var over atomic.Bool
	var posts, refused atomic.Int64
	s.post = func(wake.Letter) (int, string) {
		posts.Add(1)
		return 200, ""
	}
	node, err := s.node(store, true, func(p *wake.Deps, _ *wake.Options) { p.Owns = expiring{p.Owns, &over, &refused} })
	require.NoError(t, err)
	defer node.stop()
	_, err = s.append("/a/1")
	require.NoError(t, err)
	require.True(t, soon(2*time.Minute, func() bool { return posts.Load() == 1 }), "it is served")
	over.Store(true)
	_, err = s.append("/a/2")
	require.NoError(t, err)
	require.True(t, soon(2*time.Minute, func() bool { return refused.Load() > 0 }), "the lease is looked at before a notice is sent")
	require.EqualValues(t, 1, posts.Load())
	over.Store(false)
	require.True(t, soon(2*time.Minute, func() bool { return posts.Load() == 2 }))
}
