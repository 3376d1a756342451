package delivery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// operator is a person with the NATS command line.
type operator struct {
	t  *testing.T
	js jetstream.JetStream
}

func newOperator(t *testing.T, server *natstest.Server) operator {
	t.Helper()
	return operator{t, natstest.JetStream(t, server)}
}

// age lets all events of a namespace age out of its log.
func (o operator) age(ns string) {
	stream, err := o.js.Stream(o.t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(o.t, err)
	before := stream.CachedInfo().Config
	short := before
	short.MaxAge, short.Duplicates = 100*time.Millisecond, 100*time.Millisecond
	_, err = o.js.UpdateStream(o.t.Context(), short)
	require.NoError(o.t, err)
	require.Eventually(o.t, func() bool {
		info, err := stream.Info(o.t.Context())
		return err == nil && info.State.Msgs == 0
	}, time.Minute, 10*time.Millisecond)
	_, err = o.js.UpdateStream(o.t.Context(), before)
	require.NoError(o.t, err)
}

func (o operator) purge(ns string, below uint64) {
	stream, err := o.js.Stream(o.t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(o.t, err)
	require.NoError(o.t, stream.Purge(o.t.Context(), jetstream.WithPurgeSequence(below)))
}

func (o operator) removeConsumer(ns, name string) {
	require.NoError(o.t, o.js.DeleteConsumer(o.t.Context(), streams.Names{}.EventsStream(ns), name))
}

// waiting returns how many requests for deliveries the subscription's consumer has. With the shared
// reader it is 0 once the subscription has a position of its own.
func (o operator) waiting(sub *sluice.Subscription) int {
	if *shared {
		kv, err := o.js.KeyValue(o.t.Context(), streams.Lanes)
		require.NoError(o.t, err)
		entry, err := kv.Get(o.t.Context(), streams.LookoutKey(sub.ID))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return 1
		}
		require.NoError(o.t, err)
		return strings.Count(string(entry.Value()), `"cursor"`)
	}
	c, err := o.js.Consumer(o.t.Context(), streams.Names{}.EventsStream(sub.Namespace), sub.ID)
	require.NoError(o.t, err)
	return c.CachedInfo().NumWaiting
}

// letters returns the dead letters of a subscription.
func (o operator) letters(sub *sluice.Subscription) (all []sluice.DeadLetter) {
	stream, err := o.js.Stream(o.t.Context(), streams.Names{}.DeadLetters())
	require.NoError(o.t, err)
	for seq := uint64(1); ; seq++ {
		msg, err := stream.GetMsg(o.t.Context(), seq, jetstream.WithGetMsgSubject(streams.Names{}.DeadLettersSubject(sub.Namespace, sub.ID)))
		if err != nil {
			require.ErrorIs(o.t, err, jetstream.ErrMsgNotFound)
			return all
		}
		var d sluice.DeadLetter
		require.NoError(o.t, json.Unmarshal(msg.Data, &d))
		all, seq = append(all, d), msg.Sequence
	}
}

func (o operator) requireLost(sub *sluice.Subscription, from, to uint64) {
	var last []sluice.DeadLetter
	require.Eventually(o.t, func() bool {
		last = o.letters(sub)
		return len(last) > 0 && last[len(last)-1].LastSeq >= to
	}, time.Minute, 20*time.Millisecond, "a dead letter")
	for _, d := range last {
		require.Equal(o.t, sluice.Expired, d.Reason)
		require.Equal(o.t, from, d.Seq, "nothing else, and nothing twice: %v", last)
		from = d.LastSeq + 1
	}
	require.Equal(o.t, to+1, from, "%v", last)
}

// limit bounds what the consumers of a namespace's log may have unacknowledged; 0: nothing does.
func (o operator) limit(ns string, window int) {
	stream, err := o.js.Stream(o.t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(o.t, err)
	config := stream.CachedInfo().Config
	config.ConsumerLimits.MaxAckPending = window
	_, err = o.js.UpdateStream(o.t.Context(), config)
	require.NoError(o.t, err)
}

func newLookoutWorld(t *testing.T, policy sluice.Policy) (*world, operator) {
	t.Helper()
	server := natstest.New(t)
	policy.Retry = quickRetries
	return newWorld(t, connectTo(t, server), "n", policy), newOperator(t, server)
}

func (w *world) publishMany(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i%3)), fmt.Sprint("e", i))
	}
}

// S4-25, S4-45: what ages out while a subscription is paused is a dead letter, once; a paused
// subscription that wanted none of it hears nothing.
func TestExpire_DuringAPauseMakesDeadLetters(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"age", "purge"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
			w.looks = 10 * time.Millisecond
			proc := w.start(t)
			defer proc.stop()
			w.publishMany(t, 1, 3)
			require.Eventually(t, func() bool { return w.endpoint.delivered() == 3 && inFlight(t, w) == 0 }, patience, 10*time.Millisecond)
			w.watch.change(func(sub *sluice.Subscription) { sub.State = sluice.Paused })
			require.Eventually(t, func() bool { return op.waiting(w.sub) == 0 }, patience, 10*time.Millisecond, "no request is open")
			w.publish(t, "/other", "not wanted")
			w.publishMany(t, 4, 8)
			waitForLook(t, op, w.sub, 5)
			if how == "age" {
				op.age("n")
			} else {
				op.purge("n", 10)
			}
			op.requireLost(w.sub, 5, 9)
			w.publishMany(t, 9, 10)
			w.watch.change(func(sub *sluice.Subscription) { sub.State = sluice.Active })
			require.Eventually(t, func() bool { return w.endpoint.delivered() == 5 }, patience, 10*time.Millisecond)
			op.requireLost(w.sub, 5, 9)
		})
	}
}

// A runner that ends after its subscription leaves nothing behind.
func TestSubscription_EndedOneLeavesNoRecord(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	proc := w.start(t)
	w.publishMany(t, 1, 5)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 5 }, patience, 10*time.Millisecond)
	_, revision, err := w.store.Subscriptions().Get(t.Context(), w.sub.ID)
	require.NoError(t, err)
	require.NoError(t, w.store.Subscriptions().Delete(t.Context(), w.sub.ID, revision))
	require.NoError(t, w.deliveries.RemoveConsumers(t.Context(), w.sub))
	proc.stop()
	kv, err := op.js.KeyValue(t.Context(), streams.Lanes)
	require.NoError(t, err)
	_, err = kv.Get(t.Context(), streams.LookoutKey(w.sub.ID))
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
}

// waitForLook waits until the event with the sequence is known to wait.
func waitForLook(t *testing.T, op operator, sub *sluice.Subscription, next uint64) {
	t.Helper()
	kv, err := op.js.KeyValue(t.Context(), streams.Lanes)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		entry, err := kv.Get(t.Context(), streams.LookoutKey(sub.ID))
		if err != nil {
			return false
		}
		var l struct {
			Marks []struct{ Open, Next, Seen uint64 }
		}
		require.NoError(t, json.Unmarshal(entry.Value(), &l))
		m := l.Marks[0]
		return m.Open == next || m.Next == next || m.Seen >= next
	}, time.Minute, 10*time.Millisecond)
}

// A subscription whose filter wants nothing of what ages out is not alarmed.
func TestExpire_UnwantedEventsAreSilent(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	w.looks = 10 * time.Millisecond
	w.watch.change(func(sub *sluice.Subscription) {
		sub.State, sub.Filter.Types = sluice.Paused, []string{"rare"}
	})
	require.NoError(t, w.deliveries.EnsureConsumers(t.Context(), w.sub))
	proc := w.start(t)
	defer proc.stop()
	w.publishMany(t, 1, 300)
	waitForLook(t, op, w.sub, 300)
	op.age("n")
	w.publishMany(t, 301, 302)
	waitForLook(t, op, w.sub, 302)
	require.Empty(t, op.letters(w.sub))
}

// hold holds each response until the second channel is closed; the first one says that a request has come.
func (e *endpoint) hold() (reached <-chan struct{}, answer chan struct{}) {
	came, answer := make(chan struct{}, 16), make(chan struct{})
	e.wait = func() { came <- struct{}{}; <-answer }
	return came, answer
}

// What is lost while no server runs is noticed by the next one.
func TestExpire_DuringDowntimeMakesDeadLetters(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 1})
	w.looks = 10 * time.Millisecond
	reached, answer := w.endpoint.hold()
	proc := w.start(t)
	w.publishMany(t, 1, 4)
	<-reached
	proc.cancel()
	close(answer)
	proc.stop() // the first is settled, the others wait
	delivered := w.endpoint.delivered()
	op.age("n")
	proc = w.start(t)
	defer proc.stop()
	op.requireLost(w.sub, uint64(delivered+1), 4)
}

// What is removed behind the back of a slow subscription is noticed as well.
func TestExpire_BehindASlowSubscriptionMakesDeadLetters(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 1})
	w.looks = 10 * time.Millisecond
	reached, answer := w.endpoint.hold()
	proc := w.start(t)
	w.publishMany(t, 1, 6)
	<-reached
	waitForLook(t, op, w.sub, 2)
	op.purge("n", 5)
	close(answer)
	w.publishMany(t, 7, 7) // after a purge NATS goes on with the next event or request only
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 }, patience, 10*time.Millisecond, "1, 5, 6 and 7")
	proc.stop()
	op.requireLost(w.sub, 2, 4)
}

// removalPatience is for a request that came to the server in the very moment in which the
// consumer was removed: it gets no answer, and nats.go asks again when two heartbeats are missing.
const removalPatience = time.Minute

// An operator removes the consumer: it is made again where it was.
func TestConsumer_RemovedOneRepeatsNothing(t *testing.T) {
	withConsumers(t)
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	w.endpoint.fails["e7"] = 1
	proc := w.start(t)
	defer func() { proc.stop() }()
	w.publishMany(t, 1, 100)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 100 && inFlight(t, w) == 0 }, patience, 10*time.Millisecond)
	op.removeConsumer("n", w.sub.ID)
	w.publishMany(t, 101, 110)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 110 }, removalPatience, 10*time.Millisecond)
	proc.stop()
	op.removeConsumer("n", w.sub.ID)
	op.removeConsumer("n", w.sub.ID+"_root")
	w.publishMany(t, 111, 120)
	proc = w.start(t)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 120 }, patience, 10*time.Millisecond)
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	for id, n := range w.endpoint.good {
		require.Equal(t, 1, n, id)
	}
}

// A subscription is made anew under an id that another one had: neither a consumer nor a lane
// nor a record of that one is left to it.
func TestSubscription_SecondOfAnIDBeginsAnew(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	w.endpoint.fails["e2"] = 1000
	w.watch.change(func(sub *sluice.Subscription) {
		sub.Policy.Retry.Steps = []sluice.Duration{sluice.Duration(time.Hour)}
	})
	proc := w.start(t)
	w.publishMany(t, 1, 5)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 4-1 }, patience, 10*time.Millisecond, "5 is behind 2")
	proc.stop()

	second := *w.sub
	second.CreatedAt, second.Pattern = time.Now(), "/b/*"
	second.From = sluice.StartAt{Kind: sluice.StartSeq, Seq: 6}
	_, revision, err := w.store.Subscriptions().Get(t.Context(), second.ID)
	require.NoError(t, err)
	_, err = w.store.Subscriptions().Put(t.Context(), second.ID, &second, revision)
	require.NoError(t, err)
	first := w.sub
	w.sub, w.watch = &second, &one{sub: &second}
	proc = w.start(t)
	defer proc.stop()
	w.publishMany(t, 6, 9)
	w.publish(t, "/b/1", "b")
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 }, patience, 10*time.Millisecond)
	parked, err := w.deliveries.Parked(t.Context(), &second)
	require.NoError(t, err)
	require.Empty(t, parked)
	require.Empty(t, op.letters(&second))

	_, err = w.deliveries.OpenSource(t.Context(), first)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "the first one has ended")
}

// Where nothing can be noted of what waits, what comes is delivered all the same.
func TestStore_FullBucketDoesNotStopDeliveries(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	lift := op.fill("KV_" + streams.Lanes)
	proc := w.start(t)
	defer proc.stop()
	w.publishMany(t, 1, 5)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 5 }, patience, 10*time.Millisecond)
	lift()
}
