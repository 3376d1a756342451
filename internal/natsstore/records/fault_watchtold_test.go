package records_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// heldBack returns how many readings are told of as missed or not looked at.
func (s *watchSite) heldBack() int {
	return sum(s.told(sluice.TypeWatchMissed), "count") + sum(s.told(sluice.TypeWatchThrottled), "dropped")
}

// diePublishing lets a level with a cooldown hold back readings in a process that dies at a point, and then in another one.
func diePublishing(t *testing.T, server *natstest.Server, store storetest.Rooms, ns string, at watchPoint) (d watchDeath) {
	t.Helper()
	const most = 4 // in a second
	site := openWatchSite(t, store, sluice.Namespace{Name: ns, DedupWindow: sluice.Duration(time.Second)}, func(w *sluice.Watch) {
		w.Trigger, w.Cooldown = sluice.TriggerLevel, sluice.Duration(time.Hour)
	})
	v := &watchVictim{ns: ns, at: at, killed: make(chan struct{}), seen: map[string]int{}}
	v.wire = faulttest.OpenWire(t, strings.TrimPrefix(server.ClientURL(), "nats://"), v.see)
	v.store = storetest.Connect(t, natsstore.Options{URL: "nats://" + v.wire.Addr()})
	require.NoError(t, v.store.Provision(t.Context()))
	opts := watch.Options{Every: 20 * time.Millisecond, Most: most}
	v.watchNode = watchNodeOn(t, v.store, ns, opts)
	var heir *watchNode
	readings := 0
	for range 3 {
		site.read("/sensors/1", 40, 41, 42, 43, 44, 45, 46)
		readings += 7
		require.Eventually(t, func() bool { return v.dead.Load() || 1+site.heldBack() >= readings }, watchPatience, 20*time.Millisecond)
		if v.dead.Load() && heir == nil {
			v.bury()
			if at.late {
				site.forgotten()
			}
			heir = watchNodeOn(t, store, ns, opts)
		}
	}
	if heir == nil {
		heir = watchNodeOn(t, store, ns, opts)
	}
	require.Eventually(t, func() bool { return 1+site.heldBack() >= readings && len(site.on("/alarms/hot")) > 0 }, watchPatience, 20*time.Millisecond)
	heir.stop()
	d.reached = v.dead.Load()
	v.bury()
	if got := len(site.on("/alarms/hot")) + site.heldBack(); got != readings {
		d.wrong = fmt.Sprintf("%d of %d readings are accounted for: %v, %v", got, readings, site.told(sluice.TypeWatchMissed), site.told(sluice.TypeWatchThrottled))
	}
	if d.writes = v.seen; len(site.told(sluice.TypeWatchThrottled)) == 0 || len(site.told(sluice.TypeWatchMissed)) == 0 {
		d.wrong += "; something was never told of"
	}
	delete(d.writes, "")
	return d
}

// The readings that a watch held back are announced once each, though its owner dies right before or right after any write.
func TestWatch_HeldReadingsAreAnnouncedThroughDeath(t *testing.T) { // S2-44, S2-46
	t.Parallel()
	dieEverywhere(t, diePublishing)
}

var errDead = errors.New("the process has died") // of a step

// dying is what a keeper works with that dies right before, or right after, a step.
type dying struct {
	records.Watches
	records.WatchLog

	step  int // counted from 1; 0: it lives
	after bool
	again bool // another principal then makes a watch under the same id
	taken int
}

// take does a step, unless the process is dead.
func (d *dying) take(do func() error) error {
	d.taken++
	switch {
	case d.step == 0 || d.taken < d.step:
		return do()
	case d.taken == d.step && d.after:
		_ = do() // and its outcome is lost
	}
	return errDead
}

func (d *dying) Put(ctx context.Context, namespace, id string, w watch.Stored, revision uint64) (stored uint64, err error) {
	err = d.take(func() error {
		stored, err = d.Watches.Put(ctx, namespace, id, w, revision)
		return err
	})
	return stored, err
}

func (d *dying) Announce(ctx context.Context, ev sluice.Event) error {
	return d.take(func() error { return d.WatchLog.Announce(ctx, ev) })
}

func (d *dying) Forget(ctx context.Context, namespace, id string) error {
	return d.take(func() error { return d.Watches.Forget(ctx, namespace, id) })
}

func (d *dying) Delete(ctx context.Context, namespace, id string, revision uint64) error {
	return d.take(func() error { return d.Watches.Delete(ctx, namespace, id, revision) })
}

func keeperOn(store storetest.Rooms, d *dying) *watch.Keeper {
	d.Watches, d.WatchLog = records.NewWatches(store.Store), records.NewWatchLog(store.Log)
	return watch.NewKeeper(watch.KeeperDeps{Store: d, Log: d, Ledger: ledger.New(store.Ledger(), nil)})
}

// The cancellation of a watch is announced exactly once, wherever the cancelling process dies; and nothing is left of the watch.
func TestWatch_CancellationIsAnnouncedThroughDeath(t *testing.T) { // S2-45
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	for step := range 5 {
		for n := range 4 {
			after, again := n%2 > 0, n/2 > 0
			ns := fmt.Sprintf("n%d-%d", step, n)
			t.Run(ns, func(t *testing.T) {
				t.Parallel()
				site := openWatchSite(t, store, sluice.Namespace{Name: ns, DedupWindow: sluice.Duration(time.Second)})
				site.cancelAndDie(&dying{step: step, after: after, again: again})
			})
		}
	}
}

// cancelAndDie cancels the watch in a process that dies; then another principal makes one anew under its id, or another server looks after
// the namespace's watches.
func (s *watchSite) cancelAndDie(d *dying) {
	t := s.t
	t.Helper()
	s.read("/sensors/1", 12)
	err := keeperOn(s.store, d).Delete(t.Context(), s.watch, "ann")
	gone := d.step != 1 || d.after
	require.Equal(t, d.step == 1, err != nil, "%+v", d)
	if d.after {
		s.forgotten()
	}
	keeper := keeperOn(s.store, &dying{})
	if _, err := keeper.Get(t.Context(), s.ns, s.watch.ID); gone {
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "%+v", d)
	}
	if d.again && gone {
		_, created, err := keeper.Put(t.Context(), s.watch, func(*sluice.Watch) error { return nil })
		require.NoError(t, err)
		require.True(t, created)
	} else {
		node := watchNodeOn(t, s.store, s.ns, watch.Options{})
		defer node.stop()
	}
	want := 0
	if gone {
		want = 1
	}
	require.Eventually(t, func() bool {
		left, err := records.NewWatches(s.store.Store).All(t.Context(), s.ns)
		there := d.again || !gone
		return err == nil && len(s.told(sluice.TypeWatchCancelled)) >= want && (len(left) == 1) == there
	}, watchPatience, 20*time.Millisecond, "%+v", d)
	require.Len(t, s.told(sluice.TypeWatchCancelled), want, "%+v", d)
	_, _, err = records.NewWatches(s.store.Store).Progress.Get(t.Context(), streams.WatchKey(s.ns, s.watch.ID))
	require.True(t, !gone || sluice.CodeOf(err) == sluice.NotFound, "%+v", d)
}
