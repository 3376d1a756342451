package records_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// told returns the data of the system events of a kind about the watch.
func (s *watchSite) told(kind string) (all []map[string]any) {
	s.t.Helper()
	for _, ev := range s.on(sluice.WatchPath(s.watch.ID)) {
		if ev.Type != kind {
			continue
		}
		var data map[string]any
		require.NoError(s.t, json.Unmarshal(ev.Data, &data))
		all = append(all, data)
	}
	return all
}

// sum adds up a number of system events.
func sum(all []map[string]any, name string) (total int) {
	for _, data := range all {
		n, _ := data[name].(float64)
		total += int(n)
	}
	return total
}

func TestWatch_TwoOwnersFireOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	one, two := storeOn(t, server), storeOn(t, server)
	site := openWatchSite(t, one, sluice.Namespace{Name: "acme"})
	opts := watch.Options{Every: 10 * time.Millisecond}
	a, b := watchNodeOn(t, one, "acme", opts), watchNodeOn(t, two, "acme", opts)
	defer a.stop()
	defer b.stop()
	var want []string
	for range 40 {
		want = append(want, site.read("/sensors/1", 40, 3)...)
	}
	site.settled(len(want))
	require.Empty(t, site.judge(want))
}

// A publisher on the path of the action that takes all ids that it can compute has no alarm dropped.
func TestWatch_TakenIDsSuppressNoAlarm(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	site := openWatchSite(t, store, sluice.Namespace{Name: "acme"})
	var taken []sluice.Event
	for n := range 100 {
		taken = append(taken, sluice.Event{
			ID: fmt.Sprintf("watch-hot-%d-%d", site.watch.Revision, 50+n), Namespace: "acme", Path: "/alarms/hot", Type: "alarm", Source: "/watches/hot",
			Extensions: map[string]string{sluice.AuthID: "user:eve"},
		})
	}
	_, err := store.Log.Publish(t.Context(), "acme", taken)
	require.NoError(t, err)
	want := site.read("/sensors/1", 40)
	node := watchNodeOn(t, store, "acme", watch.Options{})
	defer node.stop()
	site.settled(1)
	told, outcomes := site.fired()
	require.Equal(t, []any{want, []string{sluice.OutcomeOK}}, []any{told, outcomes})
	require.Equal(t, want, idsOn(site.on("/alarms/hot")[len(taken):]))
}

// What left the log before a watch came to it is told of, and the watch goes on.
func TestWatch_OvertakenByRetentionContinues(t *testing.T) { // S2-44
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	site := openWatchSite(t, store, sluice.Namespace{Name: "acme"})
	node := watchNodeOn(t, store, "acme", watch.Options{})
	site.read("/sensors/1", 40)
	site.settled(1)
	_, before, err := store.Log.Bounds(t.Context(), "acme")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return placeOfWatch(t, store) == before }, watchPatience, 5*time.Millisecond, "it has read what it said itself")
	node.stop()
	site.read("/sensors/1", 2, 40, 2, 40, 2)
	_, after, err := store.Log.Bounds(t.Context(), "acme")
	require.NoError(t, err)
	_, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: sluice.Duration(time.Second)}, DedupWindow: sluice.Duration(time.Second)})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		first, _, err := store.Log.Bounds(t.Context(), "acme")
		return err == nil && first > after
	}, watchPatience, 20*time.Millisecond)
	_, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	require.Equal(t, before, placeOfWatch(t, store))

	node = watchNodeOn(t, store, "acme", watch.Options{})
	defer node.stop()
	want := site.read("/sensors/2", 50)
	site.settled(1)
	require.Equal(t, want, idsOn(site.on("/alarms/hot")))
	var missed []map[string]any
	require.Eventually(t, func() bool {
		missed = site.told(sluice.TypeWatchMissed)
		return len(missed) > 0
	}, watchPatience, 5*time.Millisecond, "what was missed may be told after what fired")
	require.Len(t, missed, 1)
	require.Equal(t, []any{"expired", float64(5), float64(before + 1)}, []any{missed[0]["reason"], missed[0]["count"], missed[0]["seq"]})
}

func placeOfWatch(t *testing.T, store storetest.Rooms) uint64 {
	t.Helper()
	record, _, err := records.NewWatches(store.Store).Progress.Get(t.Context(), streams.WatchKey("acme", "hot"))
	require.NoError(t, err)
	return record.Place
}

// Events that are read from pages of the log, because the watch had no owner for a while, are judged as live ones are.
func TestWatch_CatchesUpAfterDowntime(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	site := openWatchSite(t, store, sluice.Namespace{Name: "acme"}, func(w *sluice.Watch) {
		w.Filter.CEL, w.Trigger, w.Cooldown = "event.data % 100 == 0", sluice.TriggerLevel, sluice.Duration(time.Millisecond)
	})
	var batch []sluice.Event
	for n := range 3000 {
		batch = append(batch, sluice.Event{
			ID: strconv.Itoa(n), Namespace: "acme", Path: sluice.Path(fmt.Sprintf("/sensors/%d", n)), Type: "reading", Source: "/test", Data: fmt.Append(nil, n),
		})
	}
	var want []string
	for part := range slices.Chunk(batch, 1000) {
		stored, err := store.Log.Publish(t.Context(), "acme", part)
		require.NoError(t, err)
		for _, one := range stored {
			if (one.Seq-1)%100 == 0 {
				want = append(want, site.alarm(one.Seq))
			}
		}
	}
	node := watchNodeOn(t, store, "acme", watch.Options{Most: 100_000, Ring: 16})
	defer node.stop()
	site.settled(len(want))
	require.Empty(t, site.judge(want))
}

// S2-46: a runaway sensor is told of once a second, all that was not looked at is counted, and the watch beside it does what it does.
func TestWatch_RunawaySensorIsThrottledAlone(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	site := openWatchSite(t, store, sluice.Namespace{Name: "acme"}, func(w *sluice.Watch) {
		w.Trigger, w.Cooldown, w.Pattern = sluice.TriggerLevel, sluice.Duration(time.Hour), "/runaway"
	})
	other := site.watch
	other.ID, other.Pattern, other.Cooldown, other.Action.Path, other.Revision = "calm", "/calm", 0, "/alarms/calm", 0
	_, err := records.NewWatches(store.Store).Put(t.Context(), "acme", other.ID, watch.Stored{Watch: other}, 0)
	require.NoError(t, err)
	const most = 200 // in a second; a machine that has much else to do may not get 1,000 published
	node := watchNodeOn(t, store, "acme", watch.Options{Most: most})
	defer node.stop()

	const batches, each = 30, 250 // 5,000 a second
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	calm := 0
	for n := range batches {
		<-tick.C
		runaway(t, store, n, each)
		if n%4 == 0 {
			_, err := store.Log.Publish(t.Context(), "acme", []sluice.Event{{ID: fmt.Sprintf("calm-%d", n), Namespace: "acme", Path: "/calm", Type: "reading", Source: "/test", Data: []byte("50")}})
			require.NoError(t, err)
			calm++
		}
	}
	took := time.Since(begun)
	require.Eventually(t, func() bool {
		return len(site.on("/alarms/calm")) == calm && 1+sum(site.told(sluice.TypeWatchMissed), "count")+sum(site.told(sluice.TypeWatchThrottled), "dropped") == batches*each
	}, watchPatience, 50*time.Millisecond, "every reading was looked at or is told of")
	throttled := site.told(sluice.TypeWatchThrottled)
	t.Logf("%d readings in %s: %d looked at, %v", batches*each, took, 1+sum(site.told(sluice.TypeWatchMissed), "count"), throttled)
	require.NotEmpty(t, throttled)
	require.Equal(t, []any{"root", "hot"}, []any{throttled[0]["creator"], throttled[0]["watch_id"]})
	require.LessOrEqual(t, len(throttled), int(time.Since(begun)/time.Second)+1)
	require.LessOrEqual(t, 1+sum(site.told(sluice.TypeWatchMissed), "count"), most*(int(took/time.Second)+2))
	require.Len(t, site.on("/alarms/hot"), 1)

	var slowest time.Duration
	readings := site.on("/calm")
	for i, alarm := range site.on("/alarms/calm") {
		slowest = max(slowest, alarm.Stored.Sub(readings[i].Stored))
	}
	t.Logf("the calm watch fired %s after its reading at most", slowest)
}

func runaway(t *testing.T, store storetest.Rooms, n, each int) {
	t.Helper()
	batch := make([]sluice.Event, each)
	for i := range batch {
		batch[i] = sluice.Event{ID: fmt.Sprintf("run-%d-%d", n, i), Namespace: "acme", Path: "/runaway", Type: "reading", Source: "/test", Data: []byte("99")}
	}
	_, err := store.Log.Publish(t.Context(), "acme", batch)
	require.NoError(t, err)
}

// A watch that loses its place to another one stops, and the other one begins with what comes from then on.
func TestWatch_ReplacementBeginsAnew(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	site := openWatchSite(t, store, sluice.Namespace{Name: "acme"})
	node := watchNodeOn(t, store, "acme", watch.Options{})
	defer node.stop()
	want := site.read("/sensors/1", 40)
	site.settled(1)
	next := site.watch
	next.Action.Path, next.FromSeq = "/alarms/next", 1000
	_, err := records.NewWatches(store.Store).Put(t.Context(), "acme", "hot", watch.Stored{Watch: next}, site.watch.Revision)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // FromSeq is ahead of the log: it begins at its end
		site.read("/sensors/1", 2, 40)
		return len(site.on("/alarms/next")) > 0
	}, watchPatience, 20*time.Millisecond)
	require.Equal(t, want[0], idsOn(site.on("/alarms/hot"))[0])
}
