package delivery_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// never owns nothing.
type never struct{ always }

func (never) Holding() (then, still func(string) bool) {
	none := func(string) bool { return false }
	return none, none
}

// toldReplays tells of replays, and says when it has told of the first.
type toldReplays struct {
	deliverystore.Replays

	first func()
}

func (r toldReplays) Watch(ctx context.Context, change func(sluice.Replay, bool)) error {
	return r.Replays.Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		if e.Change != natsstore.CaughtUp {
			change(e.Value, e.Change == natsstore.Removed)
			r.first()
		}
	})
}

// A replay may end while its subscription has no owner: the lanes go nevertheless.
func TestReplays_LanesOfUnservedOnesAreDeleted(t *testing.T) {
	t.Parallel()
	store := connect(t)
	w := newWorld(t, store, "n", sluice.Policy{})
	rep := sluice.Replay{ID: "r", Subscription: w.sub.ID, Namespace: "n", State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now()}
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), rep))
	_, err := w.deliveries.Park(t.Context(), w.sub, sluice.Parked{Lane: streams.ReplayLanes(rep.ID) + ".p.a", Path: "/a", FromSeq: 1}, 0)
	require.NoError(t, err)
	parked := func() int {
		all, err := w.deliveries.Replays().Parked(t.Context(), w.sub, streams.ReplayLanes(rep.ID))
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, 1, parked())

	told := make(chan struct{})
	watch := toldReplays{w.deliveries.Replays(), sync.OnceFunc(func() { close(told) })}
	engine := delivery.New(w, never{}, delivery.Deps{Replays: w.deliveries.Replays()}, delivery.Options{Replays: watch, LookEvery: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	<-told
	require.NoError(t, w.deliveries.Replays().Progress(t.Context(), rep, func(rep *sluice.Replay) { rep.State = sluice.ReplayCancelled }))
	eventually(t, "its lanes are gone", func() bool { return parked() == 0 })
	cancel()
	require.NoError(t, <-ended)
}

// Subscriptions and replays are reported independently: a replay may come before the change of the subscription that it
// is of. It waits for that, and runs then.
func TestReplays_WaitForTheirSubscription(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"moved": false, "created again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHoldingWorld(t, connect(t), "n", sluice.Policy{})
			told := make(chan struct{})
			w.replays = toldReplays{w.deliveries.Replays(), sync.OnceFunc(func() { close(told) })}
			w.publish(t, "/a/1", "a")
			proc := w.start(t)
			defer func() { proc.stop() }()
			eventually(t, "the engine knows the subscription", func() bool { return len(w.attempts(t)) == 1 })
			if ends {
				cancelled := *w.sub
				cancelled.State = sluice.Cancelled
				w.watch.report(&cancelled)
			}
			now, next := time.Now().UTC(), *w.sub
			next.From, next.SoughtAt = sluice.StartAt{Kind: sluice.StartSeq, Seq: 2}, &now
			_, revision, err := w.store.Subscriptions().Get(t.Context(), w.sub.ID)
			require.NoError(t, err)
			_, err = w.store.Subscriptions().Put(t.Context(), w.sub.ID, &next, revision)
			require.NoError(t, err)
			rep := sluice.Replay{
				ID: "r", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayRange, From: 1, To: 1, Next: 1,
				Total: 1, State: sluice.ReplayRunning, Began: next.Began(), CreatedAt: now,
			}
			require.NoError(t, w.deliveries.Replays().Add(t.Context(), rep))
			<-told
			if ends {
				w.watch.report(nil)
			}
			w.watch.report(&next)
			eventually(t, "the end", func() bool {
				rep, err = w.deliveries.Replays().Replay(t.Context(), rep)
				require.NoError(t, err)
				return rep.State != sluice.ReplayRunning
			})
			require.Equal(t, sluice.ReplayDone, rep.State, rep.Reason)
			require.Len(t, w.attempts(t), 2)
		})
	}
}

// A subscription without work has no runner. An operator's decision starts one, which ends soon unless it takes the
// decision at once.
func TestReplays_OfASubscriptionThatRests(t *testing.T) {
	t.Parallel()
	w := newHoldingWorld(t, connect(t), "n", sluice.Policy{})
	w.rested = make(chan struct{}, 1)
	w.publish(t, "/a/1", "a")
	proc := w.start(t)
	defer func() { proc.stop() }()
	for range 3 {
		<-w.rested
		w.done(t, w.operate(t, sluice.ReplayProbe, sluice.Parked{}))
	}
	<-w.rested
	rep := w.done(t, w.operate(t, sluice.ReplayRange, sluice.Parked{FromSeq: 1}))
	require.Equal(t, uint64(1), rep.Sent)
	require.Len(t, w.attempts(t), 2)
}

// stuckLetters deletes none.
type stuckLetters struct{ delivery.Letters }

func (stuckLetters) Unbury(context.Context, uint64) error { return errCut }

// The process may die between a delivery of a redrive and the deletion of its letter: the next one deletes the letter,
// and sends nothing again.
func TestReplays_CrashLeavesNoDeliveredLetters(t *testing.T) { // C01
	t.Parallel()
	w := newWorld(t, connect(t), "n", sluice.Policy{Retry: sluice.Retry{
		Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: 1,
	}})
	w.endpoint.fails = map[string]int{"a": 1, "b": 1, "c": 1}
	replays := watchReplays{w.deliveries.Replays(), w.sub.ID}
	w.replays = replays
	letters := delivery.Letters(stuckLetters{w.deliveries})
	w.ports = func(p *delivery.Deps) { p.Replays, p.Letters = replays, letters }
	proc := w.start(t)
	for _, id := range []string{"a", "b", "c"} {
		w.publish(t, sluice.Path("/a/"+id), id)
	}
	count := func() int {
		found, err := w.deliveries.DeadLetters(t.Context(), w.sub, 1, 1<<62, 100)
		require.NoError(t, err)
		return len(found)
	}
	eventually(t, "dead letters", func() bool { return count() == 3 })
	rep := sluice.Replay{
		ID: "r", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayDeadLetters, From: 1, To: 3, Next: 1,
		Total: 3, State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now(),
	}
	require.NoError(t, replays.Add(t.Context(), rep))
	eventually(t, "deliveries that are recorded", func() bool { return len(w.attempts(t)) == 6 })
	proc.crash()
	require.Equal(t, 3, count())
	letters = w.deliveries
	proc = w.start(t)
	defer func() { proc.stop() }()
	var now sluice.Replay
	eventually(t, "the end", func() bool {
		var err error
		now, err = replays.Replay(t.Context(), rep)
		require.NoError(t, err)
		return now.State == sluice.ReplayDone
	})
	require.EqualValues(t, 3, now.Sent, "nothing was stored before the crash")
	require.Zero(t, count())
	require.Equal(t, 6, w.endpoint.attempts())
}
