package natsstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

type record struct {
	N int `json:"n"`
}

func records(store rooms) natsstore.Bucket[record] {
	return natsstore.OpenBucket[record](store.Store, streams.Lanes)
}

func TestBucket_WritesOnlyOverTheRevisionRead(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	b, ctx := records(store), t.Context()
	_, _, err := b.Get(ctx, "k")
	requireCode(t, sluice.NotFound, err)
	_, err = b.Put(ctx, "k", record{1}, 7)
	requireCode(t, sluice.Conflict, err)

	first, err := b.Put(ctx, "k", record{1}, 0)
	require.NoError(t, err)
	_, err = b.Put(ctx, "k", record{2}, 0)
	requireCode(t, sluice.Conflict, err)
	second, err := b.Put(ctx, "k", record{2}, first)
	require.NoError(t, err)
	_, err = b.Put(ctx, "k", record{3}, first)
	requireCode(t, sluice.Conflict, err)
	requireCode(t, sluice.Conflict, b.Delete(ctx, "k", first))

	got, revision, err := b.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, record{2}, got)
	require.Equal(t, second, revision)

	require.NoError(t, b.Delete(ctx, "k", second))
	_, _, err = b.Get(ctx, "k")
	requireCode(t, sluice.NotFound, err)
	_, err = b.Put(ctx, "k", record{4}, second)
	requireCode(t, sluice.Conflict, err)
	_, err = b.Put(ctx, "k", record{4}, 0)
	require.NoError(t, err, "a deleted record counts as nothing")
	require.NoError(t, b.Delete(ctx, "k", 0))
	require.NoError(t, b.Delete(ctx, "never", 0))
}

func TestBucket_RefusesInvalidKeys(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	b := records(store)
	_, _, err := b.Get(t.Context(), "a b")
	requireCode(t, sluice.NotFound, err)
	_, err = b.Put(t.Context(), "a b", record{}, 0)
	requireCode(t, sluice.InvalidRequest, err)
	require.NoError(t, b.Delete(t.Context(), "a b", 0))
}

func TestBucket_OneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	b := records(store)
	var wg sync.WaitGroup
	won := make(chan int, 16)
	for i := range cap(won) {
		wg.Go(func() {
			_, err := b.Put(t.Context(), "k", record{i}, 0)
			if err == nil {
				won <- i
			}
		})
	}
	wg.Wait()
	close(won)
	require.Len(t, won, 1)
	got, _, err := b.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, <-won, got.N)
}

func TestBucket_ListsMatchingRecords(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	b := records(store)
	empty, err := b.List(t.Context(), ">")
	require.NoError(t, err)
	require.Empty(t, empty)
	for i, key := range []string{"s.p.a", "s.a", "other.a", "gone"} {
		_, err := b.Put(t.Context(), key, record{i}, 0)
		require.NoError(t, err)
	}
	require.NoError(t, b.Delete(t.Context(), "gone", 0))
	kv, err := natstest.JetStream(t, server).KeyValue(t.Context(), streams.Lanes)
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "s.broken", []byte("no JSON"))
	require.NoError(t, err)

	tests := []struct {
		filter string
		want   []string
	}{
		{">", []string{"s.p.a", "s.a", "other.a"}},
		{"s.>", []string{"s.p.a", "s.a"}},
		{"none.>", nil},
	}
	for _, test := range tests {
		t.Run(test.filter, func(t *testing.T) {
			t.Parallel()
			entries, err := b.List(t.Context(), test.filter)
			require.NoError(t, err)
			var keys []string
			for _, e := range entries {
				keys = append(keys, e.Key)
				require.NotZero(t, e.Revision)
			}
			require.Equal(t, test.want, keys)
		})
	}
	_, _, err = b.Get(t.Context(), "s.broken")
	requireCode(t, sluice.Internal, err)
}

// watch runs a watcher until the test ends and returns what it is told.
func watch(tb testing.TB, b natsstore.Bucket[record], filter string) <-chan natsstore.Entry[record] {
	tb.Helper()
	told := make(chan natsstore.Entry[record], 100)
	ended := make(chan error)
	go func() {
		ended <- b.Watch(tb.Context(), filter, func(e natsstore.Entry[record]) { told <- e })
	}()
	tb.Cleanup(func() { require.ErrorIs(tb, <-ended, context.Canceled) })
	return told
}

func next(tb testing.TB, told <-chan natsstore.Entry[record]) string {
	tb.Helper()
	select {
	case e := <-told:
		return [...]string{"set", "removed", "caught up"}[e.Change] + " " + e.Key + " " + strconv.Itoa(e.Value.N)
	case <-time.After(time.Minute):
		tb.Fatal("nothing is told")
		return ""
	}
}

func TestWatch_GivesRecordsThenCompletionThenChanges(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	b, ctx := records(store), t.Context()
	nothing := watch(t, b, "s.>")
	require.Equal(t, "caught up  0", next(t, nothing))

	first, err := b.Put(ctx, "s.a", record{1}, 0)
	require.NoError(t, err)
	_, err = b.Put(ctx, "other", record{1}, 0)
	require.NoError(t, err)
	require.NoError(t, b.Delete(ctx, "s.none", 0))
	require.Equal(t, "set s.a 1", next(t, nothing))

	told := watch(t, b, "s.>")
	require.Equal(t, "set s.a 1", next(t, told))
	require.Equal(t, "caught up  0", next(t, told))
	both := func(want string, err error) {
		require.NoError(t, err)
		require.Equal(t, want, next(t, told))
		require.Equal(t, want, next(t, nothing))
	}
	second, err := b.Put(ctx, "s.a", record{2}, first)
	both("set s.a 2", err)
	both("removed s.a 0", b.Delete(ctx, "s.a", second))
	_, err = b.Put(ctx, "s.b", record{3}, 0)
	both("set s.b 3", err)
}

// What changed while the server was away is told afterwards, also what left no trace.
func TestWatch_ReportsChangesOfAnOutage(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	store := connected(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	b, ctx := records(store), t.Context()
	for i, key := range []string{"stays", "goes", "vanishes"} {
		_, err := b.Put(ctx, key, record{i}, 0)
		require.NoError(t, err)
	}
	link := faulttest.NewLink(t, strings.TrimPrefix(server.ClientURL(), "nats://"))
	told := watch(t, records(connected(t, natsstore.Options{URL: "nats://" + link.Addr()})), ">")
	for _, want := range []string{"set stays 0", "set goes 1", "set vanishes 2", "caught up  0"} {
		require.Equal(t, want, next(t, told))
	}
	link.Isolate()
	link.Cut()
	kv, err := natstest.JetStream(t, server).Stream(ctx, "KV_"+streams.Lanes)
	require.NoError(t, err)
	require.NoError(t, kv.Purge(ctx)) // without markers, as if they had expired
	_, err = b.Put(ctx, "stays", record{0}, 0)
	require.NoError(t, err)
	_, err = b.Put(ctx, "new", record{3}, 0)
	require.NoError(t, err)
	link.Join()
	link.Cut()

	var got []string
	for range 4 {
		got = append(got, next(t, told))
	}
	require.ElementsMatch(t, []string{"set stays 0", "set new 3", "removed goes 0", "removed vanishes 0"}, got)
	_, err = b.Put(ctx, "later", record{4}, 0)
	require.NoError(t, err)
	require.Equal(t, "set later 4", next(t, told))
}

func TestWatch_EndsWithItsStore(t *testing.T) {
	t.Parallel()
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, err)
	require.NoError(t, store.Provision(t.Context()))
	caughtUp, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- natsstore.OpenBucket[record](store, streams.Lanes).Watch(t.Context(), ">", func(natsstore.Entry[record]) { close(caughtUp) })
	}()
	<-caughtUp
	store.Close()
	require.Error(t, <-ended)
}
