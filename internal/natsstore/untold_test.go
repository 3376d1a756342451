package natsstore_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// changed returns the subscription with something more to be told.
func changed(sub *sluice.Subscription, kind, id string) *sluice.Subscription {
	next := *sub
	next.Untold = append(append([]sluice.Announcement{}, sub.Untold...), sluice.Announcement{ID: id, Type: kind, At: time.Unix(1, 0).UTC()})
	return &next
}

// toldIDs returns the ids of announcements.
func toldIDs(all []sluice.Announcement) (ids []string) {
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	return ids
}

// putSub stores what the subscription has become.
func putSub(t *testing.T, subs natsstore.Subscriptions, sub *sluice.Subscription) *sluice.Subscription {
	t.Helper()
	revision, err := subs.Put(t.Context(), sub.ID, sub, sub.Revision)
	require.NoError(t, err)
	sub.Revision = revision
	return sub
}

// C32: what is to be told is stored with the change, and waits until it is noted as told.
func TestOutbox_WaitsWithTheRecord(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	subs, ctx := store.Subscriptions(), t.Context()
	waiting := func() (ids []string) {
		all, err := store.Outbox().Waiting(ctx)
		require.NoError(t, err)
		for _, sub := range all {
			ids = append(ids, toldIDs(sub.Untold)...)
		}
		return ids
	}
	sub := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: ns}, "created", "a"))
	require.Equal(t, sub.Revision, sub.Untold[0].Revision)
	sub = putSub(t, subs, changed(sub, "updated", "b"))
	require.Equal(t, []string{"a", "b"}, waiting())
	require.Less(t, sub.Untold[0].Revision, sub.Untold[1].Revision)
	require.NoError(t, subs.Told(ctx, sub))
	require.Empty(t, waiting())
	_, err := subs.Untold(ctx, "s")
	requireCode(t, sluice.NotFound, err)
	early := *sub
	early.Untold = early.Untold[:1]
	require.NoError(t, subs.Told(ctx, &early), "a late process notes less")
	require.Empty(t, waiting())

	got, _, err := subs.Get(ctx, "s")
	require.NoError(t, err)
	got = putSub(t, subs, changed(got, "updated", "c"))
	require.Equal(t, []string{"c"}, toldIDs(got.Untold), "what was told is not kept")
	left, err := subs.Untold(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, []any{"s", ns, got.Revision, []string{"c"}}, []any{left.ID, left.Namespace, left.Revision, toldIDs(left.Untold)})
}

// C32, S2-99: a deleted subscription belongs to its announcer only, and a new one under its id tells of that first.
func TestOutbox_KeepsADeletedSubscription(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	subs, ctx := store.Subscriptions(), t.Context()
	sub := changed(putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: ns, Secrets: []sluice.Secret{{Value: "hidden"}}}, "created", "a")), sluice.TypeSubscriptionDeleted, "gone")
	requireCode(t, sluice.Conflict, subs.Retire(ctx, &sluice.Subscription{ID: "s", Lifecycle: sluice.Lifecycle{Revision: sub.Revision + 1}}))
	require.NoError(t, subs.Retire(ctx, sub))
	_, _, err := subs.Get(ctx, "s")
	requireCode(t, sluice.NotFound, err)
	all, err := subs.List(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	require.NotContains(t, dump(t, server, "subscriptions")["s"], "hidden")
	watching, stop := context.WithCancel(ctx)
	var seen []natsstore.Change
	require.ErrorIs(t, subs.Watch(watching, func(e natsstore.Entry[*sluice.Subscription]) {
		require.Nil(t, e.Value)
		if seen = append(seen, e.Change); e.Change == natsstore.CaughtUp {
			stop()
		}
	}), context.Canceled)
	require.Equal(t, []natsstore.Change{natsstore.Removed, natsstore.CaughtUp}, seen)

	again := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: ns}, "created", "b"))
	require.Equal(t, []string{"a", "gone", "b"}, toldIDs(again.Untold))
	require.NoError(t, subs.Told(ctx, sub), "who told that it is gone notes so")
	left, err := subs.Untold(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, toldIDs(left.Untold))
	require.Empty(t, left.Untold[0].Namespace)
	require.NoError(t, subs.Told(ctx, again))

	again = changed(again, sluice.TypeSubscriptionDeleted, "gone again")
	require.NoError(t, subs.Retire(ctx, again))
	require.NoError(t, subs.Told(ctx, again))
	require.NotContains(t, dump(t, server, "subscriptions"), "s")
	require.NotContains(t, dump(t, server, "told"), "s")
}

// Those of a deleted subscription belong to its namespace, though its id is used in another.
func TestOutbox_KeepsTheNamespaceOfADeletedSubscription(t *testing.T) { // S2-99
	t.Parallel()
	store, _ := provisioned(t)
	subs := store.Subscriptions()
	first := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: "one"}, "created", "a"))
	require.NoError(t, subs.Retire(t.Context(), changed(first, sluice.TypeSubscriptionDeleted, "gone")))
	second := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: "two"}, "created", "b"))
	require.NoError(t, subs.Retire(t.Context(), changed(second, sluice.TypeSubscriptionDeleted, "gone again")))
	third := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: "three"}, "created", "c"))
	in := map[string]string{}
	for _, a := range third.Untold {
		in[a.ID] = a.Namespace
	}
	require.Equal(t, map[string]string{"a": "one", "gone": "one", "b": "two", "gone again": "two", "c": ""}, in)
}

// Issue 15: a process reads all subscriptions once, and from then on those that changed.
func TestOutbox_ReadsOnWhereItWas(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	subs, out := store.Subscriptions(), store.Outbox()
	waiting := func() (ids []string) {
		all, err := out.Waiting(t.Context())
		require.NoError(t, err)
		for _, sub := range all {
			ids = append(ids, toldIDs(sub.Untold)...)
		}
		return ids
	}
	require.Empty(t, waiting())
	one := putSub(t, subs, changed(&sluice.Subscription{ID: "one", Namespace: ns}, "created", "a"))
	two := putSub(t, subs, changed(&sluice.Subscription{ID: "two", Namespace: ns}, "created", "b"))
	require.NoError(t, subs.Told(t.Context(), two))
	require.Equal(t, []string{"a"}, waiting())
	require.Empty(t, waiting(), "nothing changed")
	putSub(t, subs, changed(one, "updated", "c"))
	require.NoError(t, subs.Told(t.Context(), putSub(t, subs, changed(two, "updated", "d"))))
	require.Equal(t, []string{"a", "c"}, waiting())
	require.Empty(t, waiting(), "what was told has a mark")
}

// A crash between the two last writes leaves a mark without a record.
func TestOutbox_SweepsMarksWithoutRecords(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	subs := store.Subscriptions()
	sub := putSub(t, subs, changed(&sluice.Subscription{ID: "s", Namespace: ns}, "created", "a"))
	require.NoError(t, subs.Told(t.Context(), sub))
	require.NoError(t, subs.Delete(t.Context(), "s", sub.Revision))
	require.Contains(t, dump(t, server, "told"), "s")
	all, err := store.Outbox().Waiting(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.NotContains(t, dump(t, server, "told"), "s")
}

// What waits is bounded: a change that would have too much wait is not made.
func TestOutbox_BoundsWaitingChanges(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	subs := store.Subscriptions()
	sub := &sluice.Subscription{ID: "s", Namespace: ns}
	for i := range 100 {
		sub = putSub(t, subs, changed(sub, "updated", strconv.Itoa(i)))
	}
	_, err := subs.Put(t.Context(), "s", changed(sub, "updated", "one too many"), sub.Revision)
	requireCode(t, sluice.Unavailable, err)
	require.NoError(t, subs.Told(t.Context(), sub))
	putSub(t, subs, changed(sub, "updated", "now"))
}

// lettersAreShared checks that two processes that tell share the letters (C32).
func lettersAreShared(t *testing.T, stores ...rooms) {
	t.Helper()
	_, err := stores[0].LettersConsumer(t.Context())
	require.NoError(t, err)
	var mu sync.Mutex
	times := map[uint64]int{}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	for _, store := range stores {
		following.Go(func() {
			_ = store.deliveries().FollowLetters(ctx, func(_ context.Context, letters []model.BuriedLetter, _ bool) error { // it ends with ctx
				mu.Lock()
				defer mu.Unlock()
				for _, d := range letters {
					times[d.Seq]++
				}
				return nil
			})
		})
	}
	defer func() { cancel(); following.Wait() }()
	log, err := stores[0].deliveries().AttemptLog()
	require.NoError(t, err)
	const many = 200
	for seq := range uint64(many) {
		require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{Subscription: "s", Namespace: ns, Seq: seq + 1, EventID: strconv.FormatUint(seq, 10), Path: "/a", Reason: sluice.Exhausted, At: time.Now()}))
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(times) == many }, 3*time.Minute, time.Millisecond) // several ack waits: a cluster loses deliveries when it elects
	mu.Lock()
	defer mu.Unlock()
	for seq, n := range times {
		require.Equal(t, 1, n, seq)
	}
}

func TestOutbox_ReplicasShareTheDeadLetters(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	lettersAreShared(t, store, connected(t, natsstore.Options{Conn: server}))
}
