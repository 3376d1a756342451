package eventlog_test

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func configOf(t *testing.T, js jetstream.JetStream, stream string) jetstream.StreamConfig {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	return s.CachedInfo().Config
}

func fillLog(t *testing.T, store rooms, namespace string, n int) {
	t.Helper()
	for i := range n {
		_, err := store.Publish(t.Context(), namespace, []sluice.Event{eventOf(strconv.Itoa(i), 50_000)})
		require.NoError(t, err)
	}
}

// F4: what logs promise is room of the store for JetStream. Binding gives up promises before it makes others, and letting go
// takes others back before it gives promises again; a server that died in between starts, and lets go.
func TestBind_ExchangesPromises(t *testing.T) {
	t.Parallel()
	nats := natstest.NewWith(t, natsd.Options{DontListen: true, MaxStore: 2 << 20})
	store := connected(t, natsstore.Options{Conn: nats})
	require.NoError(t, store.core.Provision(t.Context()))
	js := natstest.JetStream(t, nats)
	large := sluice.Namespace{Name: "large", Retention: sluice.Retention{MaxBytes: 1500 << 10}}
	_, _, err := store.core.Namespaces().Put(t.Context(), large)
	require.NoError(t, err)
	fillLog(t, store, "large", 1)
	fillLog(t, store, ns, 20)
	before := map[string]jetstream.StreamConfig{}
	for _, stream := range []string{streams.Names{}.EventsStream(ns), streams.Names{}.EventsStream("large"), streams.Names{}.Attempts(), streams.Names{}.DeadLetters()} {
		before[stream] = configOf(t, js, stream)
	}
	unchanged := func() {
		for stream, config := range before {
			now := configOf(t, js, stream)
			require.Equal(t, []int64{config.MaxBytes, int64(config.Discard)}, []int64{now.MaxBytes, int64(now.Discard)}, stream)
		}
	}
	refused := func() {
		for _, namespace := range []string{ns, "large"} {
			_, err := store.Publish(t.Context(), namespace, []sluice.Event{eventOf("more", 1000)})
			requireSays(t, err, sluice.Unavailable, "full", "refuses events")
		}
	}
	for range 2 {
		require.NoError(t, store.core.Bind(t.Context(), sluice.StorageTight, 1800<<10))
		refused()
	}
	require.Equal(t, before[streams.Names{}.DeadLetters()].MaxBytes, configOf(t, js, streams.Names{}.DeadLetters()).MaxBytes)
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageScarce, 1800<<10))
	require.Positive(t, configOf(t, js, streams.Names{}.DeadLetters()).MaxBytes)
	require.Equal(t, jetstream.DiscardNew, configOf(t, js, streams.Names{}.DeadLetters()).Discard)
	require.Equal(t, jetstream.DiscardOld, configOf(t, js, streams.Names{}.Attempts()).Discard)
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageAmple, 1800<<10))
	unchanged()
	fillLog(t, store, "large", 2)

	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageScarce, 1800<<10))
	another := connected(t, natsstore.Options{Conn: nats})
	require.NoError(t, another.core.Provision(t.Context()), "a server that starts anew")
	unchanged()
}

// A log that is full by its own limit forgets its oldest events for new ones: it does not grow, and is left alone. All that
// are bound have the share at most.
func TestBind_LeavesFullLogsAlone(t *testing.T) {
	t.Parallel()
	store, js := small(t)
	_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "rolls", Retention: sluice.Retention{MaxBytes: 200_000}})
	require.NoError(t, err)
	fillLog(t, store, "rolls", 10)
	fillLog(t, store, ns, 10)
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageTight, 300_000))
	_, err = store.Publish(t.Context(), "rolls", []sluice.Event{eventOf("more", 1000)})
	require.NoError(t, err)
	require.LessOrEqual(t, configOf(t, js, streams.Names{}.EventsStream(ns)).MaxBytes, int64(300_000))
	stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.EqualValues(t, 10, stream.CachedInfo().State.Msgs, "nothing goes")
}

// A scheduled event is a record: on a full store none is added, and those that are stored change and go.
func TestBind_ScheduledEventsCanBeCancelled(t *testing.T) {
	t.Parallel()
	store, _ := small(t)
	kept := store.Scheduled()
	schedule := func(id string) (model.Scheduled, error) {
		one := model.Scheduled{Event: sluice.Event{Namespace: ns, ID: id, Path: "/a"}}
		var err error
		one.Revision, err = kept.Put(t.Context(), &one)
		return one, err
	}
	one, err := schedule("one")
	require.NoError(t, err)
	require.NoError(t, kept.Room())
	for _, level := range []sluice.StorageLevel{sluice.StorageTight, sluice.StorageScarce} {
		require.NoError(t, store.core.Bind(t.Context(), level, 1<<30))
		require.True(t, sluice.IsFull(kept.Room()))
		_, err = schedule("two")
		require.True(t, sluice.IsFull(err), "%v", err)
		_, err = schedule("one")
		requireCode(t, sluice.Conflict, err)
		one.Claim = &sluice.Claim{By: level.String(), Tries: 1}
		one.Outcome += sluice.OutcomeCancelled
		one.Revision, err = kept.Put(t.Context(), &one)
		require.NoError(t, err)
	}
	require.NoError(t, kept.DeleteOf(t.Context(), ns))
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageAmple, 1<<30))
	_, err = schedule("two")
	require.NoError(t, err)
}
