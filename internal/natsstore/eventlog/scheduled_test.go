package eventlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestScheduled_EventRoundTrips(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	kept, ctx := store.Scheduled(), t.Context()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6_000_007, time.UTC)
	one := model.Scheduled{
		Creator: sluice.Creator{CreatedBy: "user:ann", Grant: "g", CreatedAt: at.Add(-time.Hour)}, DeliverAt: at,
		Event: sluice.Event{
			Namespace: sluice.DefaultNamespace, ID: "order 17/é", Path: "/orders/17", Type: "t", Source: "/s", Time: at, Subject: "17", ContentType: "text/plain",
			DataSchema: "/schema", Extensions: map[string]string{"color": "red"}, Data: []byte("{ \"a\": \"<\x00\xff\" }"),
		},
	}
	revision, err := kept.Put(ctx, &one)
	require.NoError(t, err)
	one.Revision = revision
	got, err := kept.Get(ctx, sluice.DefaultNamespace, one.Event.ID)
	require.NoError(t, err)
	require.Equal(t, one, got)

	twice := one
	twice.Revision = 0
	_, err = kept.Put(ctx, &twice)
	requireCode(t, sluice.Conflict, err)
	one.Claim = &sluice.Claim{By: "r", Since: at, At: at, Tries: 2}
	one.Outcome, one.EndedBy = "forbidden", "user:bob"
	one.Revision, err = kept.Put(ctx, &one)
	require.NoError(t, err)
	got, err = kept.Get(ctx, sluice.DefaultNamespace, one.Event.ID)
	require.NoError(t, err)
	require.Equal(t, one, got)

	old := one
	old.Revision = revision
	requireCode(t, sluice.Conflict, kept.Delete(ctx, &old))
	require.NoError(t, kept.Delete(ctx, &one))
	_, err = kept.Get(ctx, sluice.DefaultNamespace, one.Event.ID)
	requireCode(t, sluice.NotFound, err)
	twice.Revision, err = kept.Put(ctx, &twice) // its id is free again
	require.NoError(t, err)
	require.NoError(t, kept.DeleteOf(ctx, sluice.DefaultNamespace))
	_, err = kept.Get(ctx, sluice.DefaultNamespace, one.Event.ID)
	requireCode(t, sluice.NotFound, err)
}

// What its log would not take when it is due is refused when it comes.
func TestScheduled_RefusesEventsTheLogRefuses(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	for want, event := range map[sluice.Code]sluice.Event{
		sluice.InvalidRequest: {Namespace: sluice.DefaultNamespace, ID: "i", Path: "/a", ContentType: "é"},
		sluice.NotFound:       {Namespace: "none", ID: "i", Path: "/a"},
		sluice.TooLarge:       {Namespace: sluice.DefaultNamespace, ID: "i", Path: "/a", Data: []byte(strings.Repeat("x", 16<<20))},
	} {
		_, err := store.Scheduled().Put(t.Context(), &model.Scheduled{Event: event})
		requireCode(t, want, err)
	}
	for _, id := range []string{"", "none", strings.Repeat("x", 300)} {
		_, err := store.Scheduled().Get(t.Context(), sluice.DefaultNamespace, id)
		requireCode(t, sluice.NotFound, err)
	}
}

func TestScheduled_WatchGivesEventsByKey(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	one := model.Scheduled{Event: sluice.Event{Namespace: sluice.DefaultNamespace, ID: "a b", Path: "/a"}}
	var err error
	one.Revision, err = store.Scheduled().Put(t.Context(), &one)
	require.NoError(t, err)
	type told struct {
		key string
		is  *model.Scheduled
	}
	all := make(chan told, 8)
	go func() {
		_ = store.Scheduled().Watch(t.Context(), func(key string, is *model.Scheduled) { all <- told{key, is} })
	}()
	require.Equal(t, told{"default.a=20b", &one}, <-all)
	require.Equal(t, told{}, <-all, "these were all")
	require.NoError(t, store.Scheduled().Delete(t.Context(), &one))
	require.Equal(t, told{"default.a=20b", nil}, <-all)
}

// A bucket is deleted under a running server, and made again: what was in it is told to be gone, and what comes is told, although
// the revisions begin anew.
func TestWatch_TellsOfABucketMadeAgain(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	put := func(id string) (uint64, error) {
		return store.Scheduled().Put(t.Context(), &model.Scheduled{Event: sluice.Event{Namespace: sluice.DefaultNamespace, ID: id, Path: "/a"}})
	}
	for _, id := range []string{"b", "c", "a"} {
		_, err := put(id)
		require.NoError(t, err)
	}
	told := make(chan string, 64)
	for _, watcher := range []string{"one ", "two "} {
		go func() {
			_ = store.Scheduled().Watch(t.Context(), func(key string, is *model.Scheduled) {
				switch {
				case key == "":
					told <- watcher + "all"
				case is == nil:
					told <- watcher + "gone " + key
				default:
					told <- watcher + key
				}
			})
		}()
	}
	wait := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case one := <-told:
				got = append(got, one)
			case <-time.After(time.Minute):
				t.Fatalf("told %q only, not %q", got, want)
			}
		}
		require.ElementsMatch(t, want, got)
	}
	wait("one default.a", "one default.b", "one default.c", "one all", "two default.a", "two default.b", "two default.c", "two all")
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), "KV_"+streams.Scheduled))
	require.NoError(t, store.core.Provision(t.Context())) // as another server does that starts
	wait("one gone default.a", "one gone default.b", "one gone default.c", "two gone default.a", "two gone default.b", "two gone default.c")
	revision, err := put("a")
	require.NoError(t, err)
	require.Equal(t, uint64(1), revision)
	wait("one default.a", "two default.a")
}
