package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// S2-124…129: pages of a feed have every event behind a place, and say up to where that is so.
func TestFeedPage_HasAllUpToItsEnd(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	record := eventlog.PathCommit{Fence: eventlog.PathFence{Path: "/r"}, Puts: []eventlog.PathPut{{PathFence: eventlog.PathFence{Path: "/r"}, Data: []byte("{}"), For: eventlog.RecordForever}}}
	_, err := store.CommitPaths(t.Context(), "default", record)
	require.NoError(t, err)
	const count = 600
	for n := range count {
		_, err := js.Publish(t.Context(), fmt.Sprintf("events.default.a.p%d", n%3), []byte("1"))
		require.NoError(t, err)
	}
	first, last, err := store.Bounds(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, []uint64{1, count + 1}, []uint64{first, last})
	for pattern, want := range map[sluice.Pattern]int{"/**": count, "/a/p1": count / 3, "/a/*": count, "/none": 0} {
		var seen []uint64
		pages := 0
		for place := uint64(0); place < last; pages++ {
			events, reached, err := store.FeedPage(t.Context(), "default", pattern, place, last)
			require.NoError(t, err)
			require.Greater(t, reached, place)
			for i := range events {
				require.Greater(t, events[i].Seq, place)
				place = events[i].Seq
				seen = append(seen, place)
			}
			require.GreaterOrEqual(t, reached, place)
			place = reached
		}
		require.Len(t, seen, want, pattern)
		require.LessOrEqual(t, pages, want/256+1)
	}
	events, reached, err := store.FeedPage(t.Context(), "default", "/**", last, last)
	require.NoError(t, err)
	require.Empty(t, events)
	require.Equal(t, last, reached, "there is nothing behind the end")

	place, err := store.Resolve(t.Context(), "default", "18446744073709551615")
	require.NoError(t, err, "a place behind the end is none that is no longer kept")
	require.Equal(t, uint64(math.MaxUint64-1), place)

	log, err := js.Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	require.NoError(t, log.Purge(t.Context(), jetstream.WithPurgeSequence(100)))
	_, _, err = store.FeedPage(t.Context(), "default", "/**", 50, last)
	requireCode(t, sluice.WindowExceeded, err)
	events, _, err = store.FeedPage(t.Context(), "default", "/**", 99, last)
	require.NoError(t, err)
	require.Equal(t, uint64(100), events[0].Seq)
	_, _, err = store.FeedPage(t.Context(), "nowhere", "/**", 0, 1)
	requireCode(t, sluice.NotFound, err)
}

// S2-138: a follower of a log for feeds is told when retention was faster. Events that were removed from its middle do not count as missed.
func TestFeedFollow_ReportsExpiredEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		remove func(jetstream.Stream) error
		code   sluice.Code
	}{
		"retention": {func(log jetstream.Stream) error { return log.Purge(t.Context(), jetstream.WithPurgeSequence(301)) }, sluice.WindowExceeded},
		"erasing": {func(log jetstream.Stream) error {
			return log.Purge(t.Context(), jetstream.WithPurgeSubject("events.default.a.p1"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, server := provisioned(t)
			js := natstest.JetStream(t, server)
			for n := range 400 {
				_, err := js.Publish(t.Context(), fmt.Sprintf("events.default.a.p%d", n%2), []byte("1"))
				require.NoError(t, err)
			}
			log, err := js.Stream(t.Context(), "EVENTS_default")
			require.NoError(t, err)
			done := errors.New("that is all")
			last := uint64(0)
			err = store.FeedTail(t.Context(), "default", 0, func(ev sluice.Event) error {
				if ev.Seq == 1 {
					require.NoError(t, tt.remove(log))
				}
				last = ev.Seq
				if last == 399 {
					return done
				}
				return nil
			})
			if tt.code == "" {
				require.ErrorIs(t, err, done)
				return
			}
			requireCode(t, tt.code, err)
			require.Less(t, last, uint64(300), "what was on its way")
		})
	}
}

// S2-124…129: on a cluster, too, what is read is everything that was stored before, whichever server is asked. One that was away
// does not have yet what was stored meanwhile.
func TestFeedPage_IgnoresLaggingReplicas(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some fifteen seconds")
	}
	cluster := natstest.NewCluster(t)
	store := connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3})
	require.NoError(t, store.core.Provision(t.Context()))
	var last uint64
	var few time.Time
	readers := map[string]func() (int, error){
		"pages of a feed": func() (n int, err error) {
			for place := uint64(0); place < last; {
				events, reached, err := store.FeedPage(t.Context(), ns, "/few", place, last)
				if err != nil {
					return 0, err
				}
				n += len(events)
				place = max(place, reached)
			}
			return n, nil
		},
		"events": func() (int, error) {
			page, err := store.Events(t.Context(), ns, model.EventQuery{Pattern: "/few", Limit: 1000})
			return len(page.Events), err
		},
		"changes": func() (int, error) {
			page, err := store.Changes(t.Context(), ns, model.ChangeQuery{Since: last - 500, Limit: 1000})
			return len(page.Items), err
		},
		"a time": func() (int, error) {
			place, err := store.Resolve(t.Context(), ns, few.Format(time.RFC3339Nano))
			return int(last - place), err
		},
		"ends of paths": func() (n int, err error) {
			err = store.PathEnds(t.Context(), ns, "/few", func(_ sluice.Path, seq uint64) { n = 500 - int(last-seq) })
			return n, err
		},
		"a bucket": func() (int, error) {
			all, err := numbers(store).List(t.Context(), ">")
			return len(all), err
		},
	}
	cluster.LeaveBehind(t, streams.Names{}.EventsStream(ns), func() {
		for n := range 500 {
			_, err := numbers(store).Put(t.Context(), "k"+strconv.Itoa(n), n, 0)
			require.NoError(t, err)
		}
		for n := range 20 {
			publishMany(t, store, n, "/much")
		}
		last = publishMany(t, store, 20, "/few")
		e, err := store.Event(t.Context(), ns, last-499)
		require.NoError(t, err)
		few = e.Stored
	})
	began := time.Now()
	for n := 0; n < 200 && time.Since(began) < 5*time.Second; n++ {
		for name, read := range readers {
			seen, err := answered(read)
			require.NoError(t, err, name)
			require.Equal(t, 500, seen, "%s, %s after the server came back", name, time.Since(began))
		}
	}
}

// answered reads again, for a minute at most, while NATS does not answer in time: on a busy machine a server that catches up
// with megabytes may be slow. A replica that is behind is another error.
func answered(read func() (int, error)) (seen int, err error) {
	for began := time.Now(); time.Since(began) < time.Minute; {
		if seen, err = read(); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return seen, err
}

// publishMany publishes 500 events on a path, and returns where the last one lies.
func publishMany(t *testing.T, store rooms, n int, path sluice.Path) uint64 {
	t.Helper()
	events := make([]sluice.Event, 500)
	for i := range events {
		events[i] = sluice.Event{ID: strconv.Itoa(500*n + i), Path: path, Data: make([]byte, 4<<10)}
	}
	stored, err := store.Publish(t.Context(), ns, events)
	require.NoError(t, err)
	return stored[len(stored)-1].Seq
}

// S2-138: a page with a pattern, too, notices that retention overtook it while it was read: it has every event that there was, or is none.
func TestFeedPage_OvertakenByRetentionFails(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	const count = 6000
	for n := range count {
		_, err := js.PublishAsync(fmt.Sprintf("events.default.a.p%d", n%5), []byte("1"))
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	log, err := js.Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	var place, gone atomic.Uint64
	var purging sync.WaitGroup
	var failed error
	purging.Go(func() {
		for place.Load() < count && failed == nil {
			gone.Store(min(count-100, max(gone.Load(), place.Load()+rand.N[uint64](300))))
			failed = log.Purge(t.Context(), jetstream.WithPurgeSequence(gone.Load()+1))
		}
	})
	defer purging.Wait()
	defer place.Store(count)
	for pages := 0; place.Load() < count && pages < 1000; pages++ {
		after := place.Load()
		events, reached, err := store.FeedPage(t.Context(), "default", "/a/p1", after, min(after+500, count))
		if sluice.CodeOf(err) == sluice.WindowExceeded {
			first, _, err := store.Bounds(t.Context(), "default")
			require.NoError(t, err)
			place.Store(first - 1)
			continue
		}
		require.NoError(t, err)
		for seq := after + 1; seq <= reached; seq++ {
			if seq%5 == 2 {
				require.NotEmpty(t, events, "%d is missing behind %d", seq, after)
				require.Equal(t, seq, events[0].Seq, "behind %d", after)
				events = events[1:]
			}
		}
		place.Store(reached)
	}
	require.Equal(t, uint64(count), place.Load())
	purging.Wait()
	require.NoError(t, failed)
}

// A namespace that was made again under its name has another log, however long.
func TestLog_RecreatedOneIsAnother(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	space := sluice.Namespace{Name: "again"}
	_, _, err := store.core.Namespaces().Put(t.Context(), space)
	require.NoError(t, err)
	was, err := store.Incarnation(t.Context(), "again")
	require.NoError(t, err)
	publish(t, store, "again", "/a")
	still, err := store.Incarnation(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, was, still)
	require.NoError(t, store.core.Namespaces().Delete(t.Context(), "again"))
	_, err = store.Incarnation(t.Context(), "again")
	requireCode(t, sluice.NotFound, err)
	_, _, err = store.core.Namespaces().Put(t.Context(), space)
	require.NoError(t, err)
	other, err := store.Incarnation(t.Context(), "again")
	require.NoError(t, err)
	require.NotEqual(t, was, other)
}
