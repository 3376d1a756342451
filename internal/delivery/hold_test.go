package delivery_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// watchReplays tells an engine of the replays of one subscription: a store has those of other worlds too.
type watchReplays struct {
	deliverystore.Replays

	subscription string
}

func (w watchReplays) Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error {
	return w.Replays.Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		if e.Value.Subscription == w.subscription {
			change(e.Value, e.Change == natsstore.Removed)
		}
	})
}

func holding(attempts int, more ...func(*sluice.Policy)) sluice.Policy {
	retries := quickRetries
	retries.MaxAttempts = attempts
	p := sluice.Policy{Window: 8, OnDead: sluice.DeadHolds, Retry: retries}
	for _, change := range more {
		change(&p)
	}
	return p
}

// newHoldingWorld returns a world where operators can act.
func newHoldingWorld(t require.TestingT, store storetest.Rooms, namespace string, policy sluice.Policy) *world {
	w := newWorld(t, store, namespace, policy)
	replays := watchReplays{w.deliveries.Replays(), w.sub.ID}
	w.replays = replays
	w.ports = func(p *delivery.Deps) { p.Replays, p.Letters = replays, w.deliveries }
	return w
}

// operate asks for an act on the head of a held lane.
func (w *world) operate(t require.TestingT, kind sluice.ReplayKind, lane sluice.Parked) sluice.Replay {
	rep := sluice.Replay{
		ID: fmt.Sprintf("%s-%d-%d", kind, lane.FromSeq, time.Now().UnixNano()), Subscription: w.sub.ID, Namespace: w.sub.Namespace,
		Kind: kind, State: sluice.ReplayRunning, From: lane.FromSeq, To: lane.FromSeq, Next: lane.FromSeq,
		Began: w.sub.Began(), CreatedAt: time.Now(),
	}
	require.NoError(t, w.deliveries.Replays().Add(context.Background(), rep))
	return rep
}

// done waits for the end of an act.
func (w *world) done(t require.TestingT, rep sluice.Replay) sluice.Replay {
	require.Eventually(t, func() bool {
		var err error
		rep, err = w.deliveries.Replays().Replay(context.Background(), rep)
		return err == nil && rep.State == sluice.ReplayDone
	}, time.Minute, time.Millisecond, "the act is done")
	return rep
}

// heldLanes waits until so many lanes are held, and returns them by their heads.
func (w *world) heldLanes(t require.TestingT, n int) (held []sluice.Parked) {
	require.Eventually(t, func() bool {
		st, err := w.deliveries.Status(context.Background(), w.sub)
		held = slices.DeleteFunc(st.ParkedLanes, func(p sluice.Parked) bool { return p.Held == "" })
		return err == nil && st.Held == n && len(held) == n && st.Backlog == 0
	}, time.Minute, time.Millisecond, "held lanes")
	slices.SortFunc(held, func(a, b sluice.Parked) int { return cmp.Compare(a.FromSeq, b.FromSeq) })
	return held
}

func (w *world) letters(t require.TestingT) []model.BuriedLetter {
	all, err := w.deliveries.DeadLetters(context.Background(), w.sub, 1, 1<<62, 1000)
	require.NoError(t, err)
	return all
}

// A lane whose head cannot be delivered waits until an operator retries or discards it, over a
// crash and a restart; other lanes go on.
func TestHold_LaneWaitsForAnOperator(t *testing.T) { // issue 3, item 1
	t.Parallel()
	for _, attempts := range []int{1, 3} { // of a live lane, of a parked one
		t.Run(fmt.Sprint(attempts, " attempts"), func(t *testing.T) {
			t.Parallel()
			w := newHoldingWorld(t, connect(t), "held", holding(attempts))
			w.endpoint.fails["a1"], w.endpoint.fails["a3"] = attempts, 1000
			for _, id := range []string{"a1", "a2", "a3", "a4"} {
				w.publish(t, "/a/a", id)
			}
			w.publish(t, "/a/b", "b1")
			proc := w.start(t)
			lane := w.heldLanes(t, 1)[0]
			require.Equal(t, []any{uint64(1), "a1", attempts, sluice.Exhausted, "503"}, []any{lane.FromSeq, lane.EventID, lane.Attempts, lane.Held, lane.LastError})
			require.Zero(t, lane.NextAt)
			require.WithinDuration(t, time.Now(), lane.HeldAt, time.Minute)
			require.Equal(t, 1, w.endpoint.delivered(), "the other lane")
			proc.crash()

			rep := w.operate(t, sluice.ReplayRetry, lane) // no replica serves it
			proc = w.start(t)
			w.done(t, rep)
			lane = w.heldLanes(t, 1)[0]
			require.Equal(t, uint64(3), lane.FromSeq)
			require.Empty(t, w.letters(t))
			proc.stop()
			proc = w.start(t)
			require.Equal(t, lane, w.heldLanes(t, 1)[0], "it is still held")

			require.Equal(t, uint64(1), w.done(t, w.operate(t, sluice.ReplayDiscard, lane)).Dead)
			require.Equal(t, "it no longer holds its lane", w.done(t, w.operate(t, sluice.ReplayDiscard, lane)).Reason)
			w.heldLanes(t, 0)
			require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 }, time.Minute, time.Millisecond)
			proc.stop()
			letters := w.letters(t)
			require.Len(t, letters, 1)
			require.Equal(t, []any{"a3", sluice.Exhausted, attempts, "503", true},
				[]any{letters[0].EventID, letters[0].Reason, letters[0].Attempts, letters[0].LastError, letters[0].Redrivable()})
			require.Equal(t, attempts+1, w.endpoint.tries["a1"])
			require.Equal(t, []uint64{1, 2, 3, 4}, w.endpoint.first["/a/a"])
		})
	}
}

// A retry begins the timetable anew: attempt 1, with as many to come as at first, after any recovery.
func TestHold_RetryRestartsTheTimetable(t *testing.T) {
	t.Parallel()
	retries := sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond), sluice.Duration(2 * time.Second)}}
	w := newHoldingWorld(t, connect(t), "anew", sluice.Policy{OnDead: sluice.DeadHolds, Retry: retries})
	w.endpoint.fails["e"] = 6
	w.publish(t, "/a/a", "e")
	proc := w.start(t)
	require.Eventually(t, func() bool {
		st, err := w.deliveries.Status(t.Context(), w.sub)
		return err == nil && st.Parked == 1 && st.ParkedLanes[0].Attempts >= 2
	}, time.Minute, time.Millisecond)
	proc.stop() // two attempts are recovered
	proc = w.start(t)
	for i := range 2 {
		lane := w.heldLanes(t, 1)[0]
		require.Equal(t, []int{3, 3 * (i + 1)}, []int{lane.Attempts, w.endpoint.tries["e"]})
		w.done(t, w.operate(t, sluice.ReplayRetry, lane))
		if i == 0 {
			require.Eventually(t, func() bool { w.endpoint.mu.Lock(); defer w.endpoint.mu.Unlock(); return w.endpoint.tries["e"] == 6 }, time.Minute, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 1 }, time.Minute, time.Millisecond)
	proc.stop()
	var numbers []int
	for _, a := range w.attempts(t) {
		numbers = append(numbers, a.Number)
	}
	require.Equal(t, []int{1, 2, 3, 1, 2, 3, 1}, numbers)
}

// With total order one held event stops the subscription. When the policy is changed back, what is
// held stays so.
func TestHold_StopsTheSubscriptionUnderTotalOrder(t *testing.T) {
	t.Parallel()
	w := newHoldingWorld(t, connect(t), "all", holding(1, func(p *sluice.Policy) { p.Ordering = sluice.OrderAll }))
	w.endpoint.fails["e1"] = 1
	w.endpoint.fails["e3"] = 1
	for i := 1; i <= 4; i++ {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i)), fmt.Sprintf("e%d", i))
	}
	proc := w.start(t)
	lane := w.heldLanes(t, 1)[0]
	require.Zero(t, w.endpoint.delivered())
	w.watch.change(func(sub *sluice.Subscription) { sub.Policy.OnDead = sluice.DeadContinues })
	w.publish(t, "/a/5", "e5")
	require.Equal(t, lane, w.heldLanes(t, 1)[0])
	require.Equal(t, 1, w.endpoint.tries["e1"])
	w.done(t, w.operate(t, sluice.ReplayRetry, lane))
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 }, time.Minute, time.Millisecond)
	proc.stop()
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, w.endpoint.all)
	require.Len(t, w.letters(t), 1, "e3, under the new policy")
}

// What the filter cannot decide on holds its lane without an attempt, live or read back.
func TestHold_UndecidableEventHoldsItsLane(t *testing.T) {
	t.Parallel()
	w := newHoldingWorld(t, connect(t), "told", holding(2))
	cried := &crier{ask: func() (sluice.Status, error) { return w.deliveries.Status(t.Context(), w.sub) }}
	ports := w.ports
	w.ports = func(p *delivery.Deps) { ports(p); p.Announce = cried }
	w.watch.change(func(sub *sluice.Subscription) { sub.Filter.CEL = "event.data.a / event.data.a == 1" })
	publish := func(path sluice.Path, id, data string) {
		_, err := w.store.Log.Publish(t.Context(), w.sub.Namespace, []sluice.Event{{Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(data)}})
		require.NoError(t, err)
	}
	w.endpoint.fails["b1"] = 2
	publish("/a/a", "a1", `{"a":0}`)
	publish("/a/a", "a2", `{"a":1}`)
	publish("/a/b", "b1", `{"a":1}`)
	proc := w.start(t)
	defer func() { proc.stop() }()
	held := w.heldLanes(t, 2)
	require.Equal(t, []any{"a1", sluice.FilterError, 0, "b1", sluice.Exhausted, 2},
		[]any{held[0].EventID, held[0].Held, held[0].Attempts, held[1].EventID, held[1].Held, held[1].Attempts})
	publish("/a/b", "b2", `{"a":0}`) // it fails behind another
	w.done(t, w.operate(t, sluice.ReplayRetry, held[1]))
	w.done(t, w.operate(t, sluice.ReplayRetry, held[0])) // the filter cannot tell still
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 1 }, time.Minute, time.Millisecond)
	held = w.heldLanes(t, 2)
	require.Equal(t, []string{"a1", "b2"}, []string{held[0].EventID, held[1].EventID})
	require.Contains(t, held[1].LastError, "division by zero")
	require.Eventually(t, func() bool { return len(cried.heldIDs()) == 4 }, time.Minute, time.Millisecond)
	require.ElementsMatch(t, []string{"a1", "b1", "a1", "b2"}, cried.heldIDs())
	proc.stop() // who comes next has it told if it was not (C32)
	proc = w.start(t)
	require.Eventually(t, func() bool { return len(cried.stillHeld()) == 2 }, time.Minute, time.Millisecond)
	for i, d := range cried.stillHeld() {
		require.Equal(t, []any{held[i].EventID, held[i].FromSeq, held[i].Path, sluice.FilterError, true}, []any{d.EventID, d.Seq, d.Path, d.Reason, d.At.Equal(held[i].HeldAt)})
	}
	w.watch.change(func(sub *sluice.Subscription) { sub.Filter.CEL = "" })
	w.done(t, w.operate(t, sluice.ReplayDiscard, held[0]))
	w.done(t, w.operate(t, sluice.ReplayRetry, held[1]))
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 3 }, time.Minute, time.Millisecond)
	w.heldLanes(t, 0)
	letters := w.letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, []any{"a1", sluice.FilterError, 0}, []any{letters[0].EventID, letters[0].Reason, letters[0].Attempts})
}

// What leaves the log while it is held cannot be delivered: retried it is expired, discarded it has
// no event. Nothing is lost in silence.
func TestHold_HeadMayLeaveTheLog(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	w := newHoldingWorld(t, connectTo(t, server), "aged", holding(1))
	for _, id := range []string{"a1", "a2", "b1", "b2"} {
		w.endpoint.fails[id] = 1000
		w.publish(t, sluice.Path("/a/"+id[:1]), id)
	}
	proc := w.start(t)
	defer func() { proc.stop() }()
	held := w.heldLanes(t, 2)
	newOperator(t, server).purge("aged", 5)
	w.publish(t, "/a/a", "a3")
	w.publish(t, "/a/b", "b3")
	w.heldLanes(t, 2)
	w.done(t, w.operate(t, sluice.ReplayRetry, held[0]))
	w.done(t, w.operate(t, sluice.ReplayDiscard, held[1]))
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 2 }, time.Minute, time.Millisecond)
	w.heldLanes(t, 0)
	var got []string
	for _, d := range w.letters(t) {
		require.Nil(t, d.Event)
		got = append(got, fmt.Sprintf("%s %d-%d %s", d.EventID, d.Seq, max(d.Seq, d.LastSeq), d.Reason))
	}
	require.ElementsMatch(t, []string{"a1 1-4 expired", "b1 3-3 exhausted", " 4-4 expired"}, got)
}

// A replay holds nothing: an operator would not look for it in its lanes.
func TestHold_ReplayGivesUpInstead(t *testing.T) {
	t.Parallel()
	w := newHoldingWorld(t, connect(t), "replayed", holding(1))
	w.publish(t, "/a/a", "e1")
	w.publish(t, "/a/a", "e2")
	proc := w.start(t)
	defer func() { proc.stop() }()
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 2 }, time.Minute, time.Millisecond)
	w.endpoint.mu.Lock()
	w.endpoint.fails["e1"] = 1000
	w.endpoint.mu.Unlock()
	rep := sluice.Replay{
		ID: "again", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayRange, State: sluice.ReplayRunning,
		From: 1, To: 2, Next: 1, Began: w.sub.Began(), CreatedAt: time.Now(),
	}
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), rep))
	rep = w.done(t, rep)
	require.Equal(t, []uint64{1, 1}, []uint64{rep.Sent, rep.Dead})
	require.Len(t, w.letters(t), 1)
	w.heldLanes(t, 0)
}

// The retry of a parked lane's head is the next attempt of the lane, also if nothing serves the lane when it is asked for: as a
// replay, the event would be sent once now and once when the lane is due, and the events behind it would wait until then.
func TestRetry_MovesALaneThatIsNotServedYet(t *testing.T) {
	t.Parallel()
	w := newHoldingWorld(t, connect(t), "retried", sluice.Policy{Retry: steps(time.Hour, 5)})
	w.endpoint.mu.Lock()
	w.endpoint.fails["e1"] = 1
	w.endpoint.mu.Unlock()
	w.publish(t, "/a/a", "e1")
	w.publish(t, "/a/a", "e2")
	proc := w.start(t)
	require.Eventually(t, func() bool {
		parked, err := w.deliveries.Parked(t.Context(), w.sub)
		return err == nil && len(parked) == 1 && w.endpoint.delivered() == 0
	}, time.Minute, time.Millisecond)
	proc.stop()
	rep := sluice.Replay{
		ID: "now", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayRange, State: sluice.ReplayRunning,
		From: 1, To: 1, Next: 1, Began: w.sub.Began(), CreatedAt: time.Now(),
	}
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), rep))
	proc = w.start(t)
	defer func() { proc.stop() }()
	rep = w.done(t, rep)
	require.Zero(t, rep.Sent)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 2 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		parked, err := w.deliveries.Parked(t.Context(), w.sub)
		return err == nil && len(parked) == 0
	}, time.Minute, time.Millisecond)
}

// TestHold_RandomActsLoseNothing drives crashes and operators who act on
// what is held. In the end every event was delivered or is a dead letter that an operator wanted,
// first attempts keep the order of their path, and no lane stays parked.
func TestHold_RandomActsLoseNothing(t *testing.T) { // issue 3, item 1; S4-17, C01
	t.Parallel()
	store := connect(t)
	checkWithin(t, func(rt *rapid.T, checks int) {
		ordering := rapid.SampledFrom([]sluice.Ordering{sluice.OrderByPath, sluice.OrderNone, sluice.OrderAll}).Draw(rt, "ordering")
		attempts := rapid.IntRange(1, 3).Draw(rt, "attempts")
		w := newHoldingWorld(rt, store, fmt.Sprintf("h%d", checks), holding(attempts, func(p *sluice.Policy) { p.Ordering = ordering }))
		proc := w.start(rt)
		defer func() { proc.stop() }()
		wanted := map[uint64]bool{}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": w.publishSome,
			"act": func(rt *rapid.T) {
				w.operateAll(rt, func(lane sluice.Parked) sluice.ReplayKind {
					kind := rapid.SampledFrom([]sluice.ReplayKind{sluice.ReplayRetry, sluice.ReplayDiscard}).Draw(rt, "act")
					wanted[lane.FromSeq] = wanted[lane.FromSeq] || kind == sluice.ReplayDiscard
					return kind
				})
			},
			"crash":   func(rt *rapid.T) { proc.crash(); w.crashes++; proc = w.start(rt) },
			"restart": func(rt *rapid.T) { proc.stop(); proc = w.start(rt) },
		})
		require.Eventually(rt, func() bool {
			w.operateAll(rt, func(sluice.Parked) sluice.ReplayKind { return sluice.ReplayRetry })
			return w.endpoint.delivered()+len(w.undelivered(rt)) == w.total
		}, 3*deadHandsBack, 20*time.Millisecond, "each is delivered or given up")
		w.unpark(rt)
		proc.stop()
		for _, d := range w.letters(rt) {
			require.True(rt, wanted[d.Seq], "no operator gave %d up", d.Seq)
		}
		w.keptOrder(rt)
	})
}

// deadHandsBack is the consumers' ack wait: what NATS handed to a process in the moment of its
// death comes again after that, if nothing that follows shows that it is missing.
const deadHandsBack = 30 * time.Second

// keptOrder looks at the first attempts of each path.
func (w *world) keptOrder(t require.TestingT) {
	if w.sub.Policy.Ordering == sluice.OrderNone {
		return
	}
	for path, order := range w.endpoint.first {
		require.IsIncreasing(t, order, path)
	}
}

// operateAll asks for an act on everything that is held.
func (w *world) operateAll(t require.TestingT, act func(lane sluice.Parked) sluice.ReplayKind) {
	parked, err := w.deliveries.Parked(context.Background(), w.sub)
	require.NoError(t, err)
	for _, p := range parked {
		if p.Held != "" {
			w.operate(t, act(p.Parked), p.Parked)
		}
	}
}

// undelivered returns the dead letters of events that did not arrive.
func (w *world) undelivered(t require.TestingT) []model.BuriedLetter {
	all := w.letters(t)
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	return slices.DeleteFunc(all, func(d model.BuriedLetter) bool { return w.endpoint.good[d.EventID] > 0 })
}

// heldIDs returns the events that it heard to hold their lanes.
func (c *crier) heldIDs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.held)
}
