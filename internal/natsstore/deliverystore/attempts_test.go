package deliverystore_test

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func runLog(t *testing.T, store rooms) *deliverystore.AttemptLog {
	t.Helper()
	log, err := store.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = log.Run(ctx) }) // it only ends with ctx
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return log
}

// C01: what was under way when NATS went is stored in few writes after its return, however much it is.
func TestAttempts_OfAnOutageAreStoredTogether(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	const many = 200
	sub := &sluice.Subscription{ID: "s", Namespace: "default"}
	server.Stop(t)
	done := make(chan error, many)
	for i := range many {
		log.Record(&sluice.Attempt{
			Subscription: sub.ID, EventID: strconv.Itoa(i), Seq: uint64(i + 1), Number: 1,
			StartedAt: time.Now(), Outcome: sluice.Delivered, Verdict: sluice.Verdict{Settled: true},
		}, sub.Namespace, func(err error) { done <- err })
	}
	server.Start(t)
	limit := time.After(patience)
	for range many {
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-limit:
			require.Fail(t, "records are stored too slowly")
		}
	}
	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, many)
	stream, err := store.core.JetStream().Stream(t.Context(), streams.Names{}.Attempts())
	require.NoError(t, err)
	require.Less(t, stream.CachedInfo().State.Msgs, uint64(many/4), "not one after the other")
}

// A delivery that was held begins anew: it is not settled, and its attempts count no more.
func TestAttempts_HeldDeliveryStartsAnewAfterARestart(t *testing.T) { // issue 3, item 1
	t.Parallel()
	store, _ := provisioned(t)
	log := runLog(t, store)
	sub := &sluice.Subscription{ID: "s", Namespace: "default"}
	done := make(chan error, 1)
	again, held := sluice.Verdict{Again: time.Now()}, sluice.Verdict{Held: sluice.Exhausted}
	last := time.Now()
	for _, a := range []sluice.Attempt{
		{EventID: "held", Seq: 1, Number: 1, Verdict: again},
		{EventID: "held", Seq: 1, Number: 2, Verdict: held},
		{EventID: "tried again", Seq: 2, Number: 5, Verdict: held},
		{EventID: "tried again", Seq: 2, Number: 1, StartedAt: last, Verdict: again},
		{EventID: "delivered", Seq: 3, Number: 5, Verdict: held},
		{EventID: "delivered", Seq: 3, Number: 1, Outcome: sluice.Delivered, Verdict: sluice.Verdict{Settled: true}},
		{EventID: "dead", Seq: 4, Number: 1, Verdict: sluice.Verdict{Dead: sluice.Exhausted}},
	} {
		if a.StartedAt.IsZero() {
			a.StartedAt = last.Add(-time.Second)
		}
		a.Subscription, a.Outcome = sub.ID, cmp.Or(a.Outcome, sluice.Failed)
		log.Record(&a, sub.Namespace, func(err error) { done <- err })
		require.NoError(t, <-done)
	}
	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Equal(t, model.Progress{EventID: "held"}, known[1])
	require.Equal(t, []any{"tried again", 1, false}, []any{known[2].EventID, known[2].Attempts, known[2].Settled})
	require.WithinDuration(t, last, known[2].FirstFailed, 0)
	require.Equal(t, []bool{true, true, false}, []bool{known[3].Settled, known[3].Delivered, known[3].Dead})
	require.Equal(t, []bool{true, false, true}, []bool{known[4].Settled, known[4].Delivered, known[4].Dead})
	behind, err := log.Recover(t.Context(), sub, 2, 2)
	require.NoError(t, err)
	require.Equal(t, map[uint64]model.Progress{3: known[3], 4: known[4]}, behind)
}

// The attempt of a batch is one of each of its events (issue 18, item 10).
func TestAttempts_BatchCountsForEachOfItsEvents(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	log := runLog(t, store)
	sub := &sluice.Subscription{ID: "s", Namespace: "default"}
	done := make(chan error, 1)
	batch := []sluice.EventRef{{EventID: "a", Seq: 1, Path: "/a", Type: "x"}, {EventID: "b", Seq: 3, Path: "/b", Type: "y"}}
	log.Record(&sluice.Attempt{
		Subscription: "s", EventID: "a", Seq: 1, Path: "/a", Type: "x", Number: 1, StartedAt: time.Now(), Batch: batch, Verdict: sluice.Verdict{Settled: true},
	}, "default", func(err error) { done <- err })
	require.NoError(t, <-done)
	for after, want := range map[uint64][]string{0: {"a", "b"}, 1: {"a", "b"}, 2: {"a", "b"}} { // a recent one is read whole
		known, err := log.Recover(t.Context(), sub, after, after)
		require.NoError(t, err)
		require.Len(t, known, len(want))
		require.True(t, known[1].Settled)
		require.Equal(t, "b", known[3].EventID)
		require.True(t, known[3].Settled)
	}
	for name, q := range map[string]model.HistoryQuery{
		"by id": {EventID: "b"}, "by sequence": {Seq: 3}, "by path": {Pattern: "/b"}, "by type": {Types: []string{"y"}},
	} {
		q.Limit = 10
		found, _, err := store.Attempts(t.Context(), sub, q)
		require.NoError(t, err, name)
		require.Len(t, found, 1, name)
		require.Equal(t, batch, found[0].Value.Batch, name)
	}
	found, _, err := store.Attempts(t.Context(), sub, model.HistoryQuery{EventID: "b", Pattern: "/a", Limit: 10})
	require.NoError(t, err)
	require.Empty(t, found, "no event is both")
}

// Decision 0008: what was only a probe is not an attempt, after a restart either.
func TestAttempts_ProbeIsNoneAfterARestart(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	log := runLog(t, store)
	sub := &sluice.Subscription{ID: "s", Namespace: "default"}
	done := make(chan error, 3)
	again := sluice.Verdict{Again: time.Now()}
	for _, a := range []sluice.Attempt{
		{EventID: "counted", Seq: 1, Number: 1, Verdict: again},
		{EventID: "counted", Seq: 1, Number: 2, Probe: true, Verdict: again},
		{EventID: "probed", Seq: 2, Number: 1, Probe: true, Verdict: again},
	} {
		a.Subscription, a.StartedAt, a.Outcome = sub.ID, time.Now(), sluice.Failed
		log.Record(&a, sub.Namespace, func(err error) { done <- err })
		require.NoError(t, <-done)
	}
	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.Equal(t, 1, known[1].Attempts)
	shown, _, err := store.Attempts(t.Context(), sub, model.HistoryQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, shown, 3, "an operator sees them")
	require.True(t, shown[0].Value.Probe)
}

// The first attempt of a subscription is known by its start: a dead letter of it is older than its record, and belongs to it all the same.
func TestAttempts_FirstIsKnownByItsStart(t *testing.T) { // S0-85
	t.Parallel()
	store, _ := provisioned(t)
	log := runLog(t, store)
	sub := &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}
	at, err := store.FirstAttemptAt(t.Context(), sub)
	require.NoError(t, err)
	require.Zero(t, at)

	done := make(chan error, 1)
	first, second := attempted("s", 1), attempted("s", 2)
	for _, a := range []*sluice.Attempt{first, second} {
		log.Record(a, sluice.DefaultNamespace, func(err error) { done <- err })
		recorded(t, done, 1)
	}
	at, err = store.FirstAttemptAt(t.Context(), sub)
	require.NoError(t, err)
	require.True(t, at.Equal(first.StartedAt), "%s, not %s", at, first.StartedAt)
}

// C01: attempts that are not stored yet, because NATS was away, are waited for: their events must not be sent again.
func TestAttempts_RecoverWaitsForUnrecordedOnes(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	log, err := store.AttemptLog()
	require.NoError(t, err)
	sub := store.subscribed(t, seq(1))
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	done := make(chan error, 2)
	for _, replay := range []string{"", "r"} {
		a := attempted(sub.ID, 1)
		a.Replay = replay
		log.Record(a, sub.Namespace, func(err error) { done <- err })
	}
	reads := map[string]func(context.Context) (map[uint64]model.Progress, error){
		"live": func(ctx context.Context) (map[uint64]model.Progress, error) { return log.Recover(ctx, sub, 0, 0) },
		"replay": func(ctx context.Context) (map[uint64]model.Progress, error) {
			return store.Replays().Recover(ctx, sub, sluice.Replay{ID: "r"})
		},
	}
	for name, read := range reads {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = read(short)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
	past := func() fanout.Past {
		all, err := store.Positions().All(t.Context())
		require.NoError(t, err)
		return all(sub).Past
	}
	require.Nil(t, past(), "it has to read them itself")

	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = log.Run(ctx) })
	for name, read := range reads {
		known, err := read(t.Context())
		require.NoError(t, err, name)
		require.True(t, known[1].Settled, name)
	}
	recorded(t, done, 2)
	require.True(t, past()[1].Settled)
}

// A request may take a minute, and what is behind it may be settled meanwhile and come again: that is known however long
// ago it was, in a read for one subscription and in one for all.
func TestAttempts_RecoverReachesBackToTheFloor(t *testing.T) { // C01
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	log := runLog(t, store)
	sub := store.subscribed(t, seq(1))
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	store.publish(t, "/a/1", "/a/2", "/a/3")
	done := make(chan error, 1)
	record := func(seq int, replay string) {
		a := attempted(sub.ID, seq)
		a.Replay = replay
		log.Record(a, sub.Namespace, func(err error) { done <- err })
		recorded(t, done, 1)
	}
	rep := sluice.Replay{ID: "r", Subscription: sub.ID, CreatedAt: time.Now()}
	record(2, "")
	record(2, rep.ID)
	began := time.Now()
	require.Eventually(t, func() bool { return time.Since(began) > 31*time.Second }, patience, time.Second)
	record(3, "")

	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.True(t, known[2].Settled)
	known, err = log.Recover(t.Context(), sub, 0, 2)
	require.NoError(t, err)
	require.Len(t, known, 2, "the record of a parked lane may be older than a request of a minute")
	known, err = log.Recover(t.Context(), sub, 2, 2)
	require.NoError(t, err)
	require.Len(t, known, 1)
	known, err = store.Replays().Recover(t.Context(), sub, rep)
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.True(t, known[2].Settled)
	all, err := store.Positions().All(t.Context())
	require.NoError(t, err)
	require.Len(t, all(sub).Past, 2)
}
