package deliverystore_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// subscribed returns a stored subscription to /a and all below.
func (r rooms) subscribed(t *testing.T, from sluice.StartAt) *sluice.Subscription {
	t.Helper()
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Now().UTC()}, From: from,
	}
	sub.SetDefaults()
	r.keep(t, sub)
	return sub
}

func sharing(*sluice.Subscription) bool { return true }

// term is the lease of a replica: the number of the time for which it holds it; 0: it does not.
type term int

func (l *term) holding() (then, still func(string) bool) {
	was := *l
	return func(string) bool { return was != 0 }, func(string) bool { return was != 0 && *l == was }
}

func seq(n uint64) sluice.StartAt { return sluice.StartAt{Kind: sluice.StartSeq, Seq: n} }

// A subscription of the shared reader has a position and no consumer, from its start on.
func TestPositions_NewOneBeginsAtItsStart(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	store.publish(t, "/a/1", "/a/2")
	between := time.Now()
	store.publish(t, "/a/3")
	for name, c := range map[string]struct {
		from sluice.StartAt
		want uint64
	}{
		"a sequence": {seq(2), 1},
		"a time":     {sluice.StartAt{Kind: sluice.StartTime, Time: between}, 2},
		"no event":   {sluice.StartAt{Kind: sluice.StartTime, Time: time.Now().Add(time.Hour)}, 3},
	} {
		sub := store.subscribed(t, c.from)
		require.NoError(t, store.EnsureConsumers(t.Context(), sub), name)
		require.NoError(t, store.EnsureConsumers(t.Context(), sub), "again")
		got, err := store.Positions().Stored(t.Context(), sub)
		require.NoError(t, err)
		require.Equal(t, fanout.Stored{Position: fanout.Position{Shared: true, Floors: []uint64{c.want, c.want}}, Known: true}, got, name)
		_, err = natstest.JetStream(t, server).Consumer(t.Context(), streams.Names{}.EventsStream(sub.Namespace), "s")
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
		require.NoError(t, store.core.Subscriptions().Delete(t.Context(), sub.ID, sub.Revision))
		require.NoError(t, store.RemoveConsumers(t.Context(), sub))
	}
}

// Where a new subscription begins is known once, without a look at what is stored, and only in the process
// that creates it. What was decided when it was created holds.
func TestPositions_NewOneIsExpectedOnce(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	shares := true
	lease := term(1)
	store.Share(deliverystore.Sharing{Shares: func(*sluice.Subscription) bool { return shares }, Holding: lease.holding})
	p := store.Positions()
	sub := store.subscribed(t, seq(4))
	_, expected := p.New(sub)
	require.False(t, expected)
	store.Expect(sub)
	later := *sub
	later.CreatedAt = later.CreatedAt.Add(time.Second)
	_, expected = p.New(&later)
	require.False(t, expected, "another one of the same id")
	begins, expected := p.New(sub)
	require.True(t, expected)
	require.Equal(t, fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{3, 3}}}, begins)
	_, expected = p.New(sub)
	require.False(t, expected)

	shares = false
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	stored, err := p.Stored(t.Context(), sub)
	require.NoError(t, err)
	begins.New = false
	require.Equal(t, begins, stored)

	moved := &later
	store.Expect(moved)
	_, expected = p.New(moved)
	require.False(t, expected, "it has consumers of its own")
	shares = true
	store.Expect(moved)
	require.NoError(t, p.PutPosition(t.Context(), moved, begins.Position))
	_, expected = p.New(moved)
	require.False(t, expected, "it was served")
}

// Another replica may have served a new subscription, and stored where it got to, unless this one has held its lease
// since before it was stored.
func TestPositions_NewOneNeedsItsLease(t *testing.T) { // C01
	t.Parallel()
	for name, c := range map[string]struct {
		then term
		now  term
		want bool
	}{
		"held throughout": {1, 1, true},
		"held by another": {0, 1, false},
		"lost":            {1, 0, false},
		"lost and back":   {1, 2, false},
	} {
		store, _ := provisioned(t)
		lease := c.then
		store.Share(deliverystore.Sharing{Shares: sharing, Holding: lease.holding})
		sub := store.subscribed(t, seq(4))
		store.Expect(sub)
		lease = c.now
		_, expected := store.Positions().New(sub)
		require.Equal(t, c.want, expected, name)
	}
}

// A subscription that ended meanwhile leaves no position behind.
func TestPositions_EndedOneHasNone(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	sub := store.subscribed(t, seq(1))
	require.NoError(t, store.core.Subscriptions().Delete(t.Context(), sub.ID, sub.Revision))
	requireCode(t, sluice.NotFound, store.EnsureConsumers(t.Context(), sub))
	require.NoError(t, store.Positions().PutPosition(t.Context(), sub, fanout.Position{Shared: true, Floors: []uint64{7, 7}}))
	got, err := store.Positions().Stored(t.Context(), sub)
	require.NoError(t, err)
	require.Zero(t, got)
}

// What is stored is what is read, of one subscription and of all.
func TestPositions_AreStored(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	sub := store.subscribed(t, seq(1))
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	want := fanout.Position{
		Shared: true, Attached: true, Floors: []uint64{7, 9}, Open: fanout.Waits{Seq: 10, Filter: 1}, Next: fanout.Waits{Seq: 12},
	}
	require.NoError(t, store.Positions().PutPosition(t.Context(), sub, want))
	_, err := store.Park(t.Context(), sub, sluice.Parked{Lane: "s.p.a", FromSeq: 3}, 0)
	require.NoError(t, err)
	stored := fanout.Stored{Position: want, Known: true, Busy: true}
	got, err := store.Positions().Stored(t.Context(), sub)
	require.NoError(t, err)
	require.Equal(t, stored, got)
	all, err := store.Positions().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, stored, all(sub))
	moved := *sub
	moved.SoughtAt = &time.Time{}
	require.False(t, all(&moved).Known, "it was moved since")
}

// One reading tells of all subscriptions what the attempts tell of each, unless lanes or health are stored, too.
func TestPositions_KnowTheLatestAttempts(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	sub := store.subscribed(t, seq(1))
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	log, done := runLog(t, store), make(chan error, 1)
	for _, a := range []sluice.Attempt{
		{EventID: "settled", Seq: 5, Number: 2, StartedAt: time.Now(), Verdict: sluice.Verdict{Settled: true}},
		{EventID: "failed", Seq: 6, Number: 1, StartedAt: time.Now(), Verdict: sluice.Verdict{Again: time.Now()}},
		{EventID: "probe", Seq: 7, Number: 1, StartedAt: time.Now(), Probe: true},
		{EventID: "replayed", Seq: 8, Number: 1, StartedAt: time.Now(), Replay: "r"},
		{EventID: "before", Seq: 9, Number: 1, StartedAt: sub.CreatedAt.Add(-time.Second)},
	} {
		a.Subscription = sub.ID
		log.Record(&a, sub.Namespace, func(err error) { done <- err })
		require.NoError(t, <-done)
	}
	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, 2)
	all, err := store.Positions().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, fanout.Past(known), all(sub).Past)

	require.NoError(t, store.PutHealth(t.Context(), sub, model.Health{Unopened: "x"}))
	all, err = store.Positions().All(t.Context())
	require.NoError(t, err)
	require.True(t, all(sub).Busy)
	require.Nil(t, all(sub).Past)
}

// A cursor has one writer at a time, and those that are attached to it have what it says.
func TestCursor_HasOneWriter(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.Share(deliverystore.Sharing{Shares: sharing})
	p, ns := store.Positions(), sluice.DefaultNamespace
	sub := store.subscribed(t, seq(1))
	shard := p.Shard(sub.ID)
	c, err := p.Cursor(t.Context(), ns, shard)
	require.NoError(t, err)
	require.Zero(t, c)
	first, err := p.PutCursor(t.Context(), ns, shard, fanout.Cursor{Seq: 5})
	require.NoError(t, err)
	_, err = p.PutCursor(t.Context(), ns, shard, fanout.Cursor{Seq: 6})
	requireCode(t, sluice.Conflict, err)
	put, err := p.PutCursor(t.Context(), ns, shard, fanout.Cursor{Seq: 6, Log: "its log", Revision: first.Revision})
	require.NoError(t, err)
	got, err := p.Cursor(t.Context(), ns, shard)
	require.NoError(t, err)
	require.Equal(t, fanout.Cursor{Seq: 6, Log: "its log", Revision: put.Revision}, got)
	require.Equal(t, got, put)
	require.NoError(t, p.PutPosition(t.Context(), sub, fanout.Position{Shared: true, Attached: true, Floors: []uint64{2, 2}}))
	had, err := store.Had(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 6, had[sub.ID].Seq)
}

// A subscription with consumers goes over to the shared reader where they were, and back.
func TestAdopt_GoesOnWhereConsumersWere(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	sub := store.subscribed(t, seq(1))
	store.publish(t, "/a/1", "/a/1", "/a", "/a/1", "/a/1")
	src, err := store.OpenSource(t.Context(), sub)
	require.NoError(t, err)
	for range 5 {
		if d := <-src.Deliveries(); d.Event.Seq <= 3 {
			require.NoError(t, d.Receipt.Ack())
		}
	}
	require.Eventually(t, func() bool {
		status, err := store.Status(t.Context(), sub)
		return err == nil && status.InFlight == 2
	}, time.Minute, time.Millisecond)
	src.Close()
	at, err := store.Positions().Adopt(t.Context(), sub)
	require.NoError(t, err)
	require.Equal(t, fanout.Position{Shared: true, Floors: []uint64{3, 5}}, at, "of what lies below, and of the path itself")
	_, err = natstest.JetStream(t, server).Consumer(t.Context(), streams.Names{}.EventsStream(sub.Namespace), "s")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	status, err := store.Status(t.Context(), sub)
	require.NoError(t, err)
	require.EqualValues(t, 2, status.Backlog)

	require.NoError(t, store.Positions().PutPosition(t.Context(), sub, fanout.Position{Floors: []uint64{4, 5}}))
	src, err = store.OpenSource(t.Context(), sub)
	require.NoError(t, err)
	defer src.Close()
	require.EqualValues(t, 5, (<-src.Deliveries()).Event.Seq)
}

// A consumer whose replica is behind reports nothing pending: the events that it does not know of are no consumed ones.
func TestAdopt_LaggingConsumerSkipsNothing(t *testing.T) {
	t.Parallel()
	var info []byte
	log := streams.Names{}.EventsStream(sluice.DefaultNamespace)
	store := connected(t, natsstore.Options{URL: natstest.Answered(t, 100, func(msg *nats.Msg) { _ = msg.Respond(info) }, "$JS.API.CONSUMER.INFO."+log+".s")})
	require.NoError(t, store.core.Provision(t.Context()))
	sub := store.subscribed(t, seq(1))
	var err error
	info, err = json.Marshal(jetstream.ConsumerInfo{
		Stream: log, Name: "s", AckFloor: jetstream.SequenceInfo{Stream: 1},
		Config: jetstream.ConsumerConfig{Durable: "s", FilterSubject: streams.Names{}.PushConsumers(sub)[0].Filter.Subject, Metadata: map[string]string{"sluice-since": sub.Began().Format(time.RFC3339Nano)}},
	})
	require.NoError(t, err)
	store.publish(t, "/a/1", "/b", "/a/1")
	at, err := store.Positions().Adopt(t.Context(), sub)
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 0}, at.Floors)
}

// Without the shared reader, a subscription that it served gets consumers from where its cursor is on.
func TestOpenSource_GoesOnWhereTheSharedReaderWas(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	sub := store.subscribed(t, seq(1))
	store.publish(t, "/a/1", "/a/1", "/a/1")
	p := store.Positions()
	require.NoError(t, p.PutPosition(t.Context(), sub, fanout.Position{Shared: true, Attached: true, Floors: []uint64{1, 1}}))
	_, err := p.PutCursor(t.Context(), sub.Namespace, p.Shard(sub.ID), fanout.Cursor{Seq: 2})
	require.NoError(t, err)
	src, err := store.OpenSource(t.Context(), sub)
	require.NoError(t, err)
	defer src.Close()
	require.EqualValues(t, 3, (<-src.Deliveries()).Event.Seq)
}

// Where a subscription starts, and what it had, does not depend on the replica that answers: one that is behind lacks what was stored
// meanwhile.
func TestPositions_IgnoreLaggingReplicas(t *testing.T) {
	t.Parallel()
	store := connected(t, natsstore.Options{URL: natstest.Behind(t, streams.Names{}.EventsStream(sluice.DefaultNamespace), streams.Names{}.Attempts(), streams.Names{}.DeadLetters())})
	require.NoError(t, store.core.Provision(t.Context()))
	store.publish(t, "/a/0")
	sub := store.subscribed(t, sluice.StartAt{Kind: sluice.StartTime, Time: time.Now()})
	store.publish(t, "/a/1", "/a/2")
	log, done := runLog(t, store), make(chan error, 1)
	a := sluice.Attempt{Subscription: sub.ID, EventID: "e", Seq: 2, Number: 1, StartedAt: time.Now(), Verdict: sluice.Verdict{Settled: true}}
	log.Record(&a, sub.Namespace, func(err error) { done <- err })
	require.NoError(t, <-done)
	require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{Subscription: sub.ID, Namespace: sub.Namespace, EventID: "e", Seq: 2, Reason: sluice.Exhausted, At: time.Now(), Event: &sluice.Event{}}))
	for range 20 {
		at, err := store.Positions().Adopt(t.Context(), sub)
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 1}, at.Floors)
		known, err := log.Recover(t.Context(), sub, 0, 1)
		require.NoError(t, err)
		require.Contains(t, known, uint64(2))
		last, err := store.LastAttempt(t.Context(), sub)
		require.NoError(t, err)
		require.NotNil(t, last)
		_, err = store.DeadLetter(t.Context(), sub, "e")
		require.NoError(t, err)
	}
}

// The place is before every event that may not be settled: it is not acknowledged, or a parked lane has it.
func TestPlace_PrecedesUnsettledEvents(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(rooms, *testing.T, *sluice.Subscription, ...uint64){"shared reader": rooms.settleShared, "own consumers": rooms.settleOwn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := provisioned(t)
			store.Share(deliverystore.Sharing{Shares: func(*sluice.Subscription) bool { return name == "shared reader" }})
			store.publish(t, "/a/1", "/b", "/a", "/b/2", "/a/2", "/b/3")
			sub := store.subscribed(t, seq(1))
			requirePlace := func(want uint64) { store.requirePlace(t, sub, want) }
			requirePlace(1) // no consumer exists yet
			require.NoError(t, store.EnsureConsumers(t.Context(), sub))
			requirePlace(1)
			settle(store, t, sub, 1)
			requirePlace(3)
			revision, err := store.Park(t.Context(), sub, sluice.Parked{Lane: "s.p.a", FromSeq: 1}, 0)
			require.NoError(t, err)
			requirePlace(1)
			require.NoError(t, store.Unpark(t.Context(), "s.p.a", revision))
			settle(store, t, sub, 3, 5)
			requirePlace(7)
		})
	}
}

// The place does not depend on the replica that answers: one that is behind lacks events that wait.
func TestPlace_IgnoresLaggingReplicas(t *testing.T) {
	t.Parallel()
	store := connected(t, natsstore.Options{URL: natstest.Behind(t, streams.Names{}.EventsStream(sluice.DefaultNamespace))})
	require.NoError(t, store.core.Provision(t.Context()))
	store.publish(t, "/a/1", "/a/2", "/a/3")
	sub := store.subscribed(t, seq(2))
	for range 20 {
		place, err := store.Place(t.Context(), sub)
		require.NoError(t, err)
		require.EqualValues(t, 2, place)
	}
}

// Of a start at the last event of each path, these are before the sequence from which all events come.
func TestPlace_LastPerPathPrecedesItsLastEvents(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	store.publish(t, "/a/1", "/a/1", "/a/2")
	sub := store.subscribed(t, sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 4})
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	store.requirePlace(t, sub, 2)
	store.settleOwn(t, sub, 2)
	store.requirePlace(t, sub, 3)
	store.settleOwn(t, sub, 3)
	store.requirePlace(t, sub, 4)
	store.publish(t, "/a/1", "/a/1")
	store.requirePlace(t, sub, 4)
}

func (r rooms) requirePlace(t *testing.T, sub *sluice.Subscription, want uint64) {
	t.Helper()
	require.Eventually(t, func() bool { // the server learns of an acknowledgement later
		place, err := r.Place(t.Context(), sub)
		return err == nil && place == want
	}, time.Minute, 10*time.Millisecond, want)
}

// settleShared settles all events up to the last of seqs.
func (r rooms) settleShared(t *testing.T, sub *sluice.Subscription, seqs ...uint64) {
	t.Helper()
	upTo := seqs[len(seqs)-1]
	require.NoError(t, r.Positions().PutPosition(t.Context(), sub, fanout.Position{Shared: true, Floors: []uint64{upTo, upTo}}))
}

// settleOwn acknowledges the deliveries of some events.
func (r rooms) settleOwn(t *testing.T, sub *sluice.Subscription, seqs ...uint64) {
	t.Helper()
	source, err := r.OpenSource(t.Context(), sub)
	require.NoError(t, err)
	defer source.Close()
	for settled := 0; settled < len(seqs); {
		if d := <-source.Deliveries(); slices.Contains(seqs, d.Event.Seq) {
			require.NoError(t, d.Receipt.Ack())
			settled++
		}
	}
}
