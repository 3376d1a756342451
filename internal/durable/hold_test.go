package durable_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Appends in a row are one publish each; the record is not written with each.
func TestProducer_AppendsAreNotedOnTheirEvents(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{})
	u.accepted(t, 20)
	require.Equal(t, 19, u.counted("note"), "all but the first")
	require.Equal(t, 2, u.counted("record"), "of making the stream and of owning it")
	u.is(t, durable.Duplicate, "p", 0, 19)
	u.is(t, durable.Gap, "p", 0, 21)
	u.is(t, durable.StaleEpoch, "p", -1, 0)
	for i := range 5 {
		_, err := u.append(t.Context(), durable.Append{Body: []byte("x"), Seq: strconv.Itoa(i), HasSeq: true})
		require.NoError(t, err)
	}
	_, err := u.append(t.Context(), durable.Append{Body: []byte("x"), Seq: "3", HasSeq: true})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
}

// A server that was killed has written nothing but its events: the server that continues knows all of them.
func TestProducer_SuccessorKnowsTheNotes(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	killed, next := s.user(), s.user()
	killed.create(t, durable.Create{})
	const appends = 600 // more than are read at once
	for seq := range int64(appends) {
		killed.is(t, durable.Accepted, "p", 0, seq)
		if seq%100 == 0 {
			killed.is(t, durable.Accepted, "q", seq, 0)
			_, err := s.js.Publish(t.Context(), "events.space.s", []byte("from outside,"))
			require.NoError(t, err)
		}
	}
	_, err := killed.append(t.Context(), durable.Append{Body: []byte("x"), Seq: "m", HasSeq: true})
	require.NoError(t, err)
	before := killed.text(t)
	require.Positive(t, killed.counted("note"))

	next.is(t, durable.Duplicate, "p", 0, appends-1)
	next.is(t, durable.Gap, "p", 0, appends+1)
	next.is(t, durable.StaleEpoch, "q", 100, 0)
	_, err = next.append(t.Context(), durable.Append{Body: []byte("x"), Seq: "k", HasSeq: true})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.Equal(t, before, next.text(t))
	next.is(t, durable.Accepted, "p", 0, appends)

	killed.is(t, durable.Duplicate, "p", 0, appends)
	killed.is(t, durable.Accepted, "p", 0, appends+1)
	next.is(t, durable.Duplicate, "p", 0, appends+1)
}

// Two servers, several producers that send everything to both at once: each append is stored once and in order.
func TestProducer_TwoEnginesStoreOnceAndInOrder(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		race(t, newSpace(t, 0))
	})
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("a cluster")
		}
		race(t, spaceOn(t, natsstore.Options{URL: natstest.NewCluster(t).URL(), Replicas: 3}, 0))
	})
}

func race(t *testing.T, s *space) {
	t.Helper()
	both := []*user{s.user(), s.user()}
	both[0].create(t, durable.Create{})
	both[0].run(t)
	both[1].run(t)
	const producers, appends = 3, 60
	var all sync.WaitGroup
	for p := range producers {
		for _, u := range both {
			all.Go(func() { u.produceAll(t, "p"+strconv.Itoa(p), appends) })
		}
		all.Go(func() { both[p%2].appendAll(t, "plain,", appends) })
	}
	all.Wait()
	third := s.user()
	got := map[string][]string{}
	for item := range strings.SplitSeq(strings.TrimSuffix(third.text(t), ","), ",") {
		id, _, _ := strings.Cut(item, ":")
		got[id] = append(got[id], item)
	}
	require.Len(t, got["plain"], producers*appends)
	for p := range producers {
		id := "p" + strconv.Itoa(p)
		var want []string
		for seq := range appends {
			want = append(want, fmt.Sprintf("%s:0:%d", id, seq))
		}
		require.Equal(t, want, got[id])
		third.is(t, durable.Duplicate, id, 0, appends-1)
	}
}

// produceAll appends as a producer, which may be others at the same time.
func (u *user) produceAll(t *testing.T, id string, appends int64) {
	t.Helper()
	for seq := range appends {
		if done, err := u.produce(t.Context(), id, 0, seq); err != nil {
			t.Errorf("%s %d: %+v %v", id, seq, done, err)
			return
		}
	}
}

func (u *user) appendAll(t *testing.T, data string, appends int) {
	t.Helper()
	for range appends {
		if _, err := u.append(t.Context(), durable.Append{Body: []byte(data)}); err != nil {
			t.Error(err)
			return
		}
	}
}

// An append whose answer was lost is stored, and its producer is told so by any server that it asks again.
func TestProducer_LostAnswerStoresOnce(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	u.create(t, durable.Create{})
	u.accepted(t, 3)
	u.lose = true
	_, err := u.produce(t.Context(), "p", 0, 3)
	require.ErrorIs(t, err, errLost)
	u.lose = false
	u.is(t, durable.Duplicate, "p", 0, 3)
	u.is(t, durable.Accepted, "p", 0, 4)
	require.Equal(t, "p:0:0,p:0:1,p:0:2,p:0:3,p:0:4,", u.text(t))
}

// Events leave the log, and what was noted on them does not get lost.
func TestNote_OutlivesItsEvents(t *testing.T) {
	t.Parallel()
	s := newSpace(t, time.Second)
	u := s.user()
	u.create(t, durable.Create{})
	end := u.run(t)
	u.accepted(t, 10)
	gone := func() bool { return u.text(t) == "" }
	require.Eventually(t, gone, patience, 50*time.Millisecond)
	s.user().is(t, durable.Duplicate, "p", 0, 9)
	u.is(t, durable.Accepted, "p", 0, 10)
	end()
	require.Eventually(t, gone, patience, 50*time.Millisecond)
	s.user().is(t, durable.Duplicate, "p", 0, 10)
}

// A server was killed, and its producer does not come back for long: reading the stream is enough to keep what it noted.
func TestNote_OfAKilledServerIsKeptByReaders(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(t *testing.T, u *user){
		"reading": func(t *testing.T, u *user) { t.Helper(); u.text(t) },
		"appending": func(t *testing.T, u *user) {
			t.Helper()
			_, err := u.append(t.Context(), durable.Append{Body: []byte("x")})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, 0)
			killed, later := s.user(), s.user()
			killed.create(t, durable.Create{})
			killed.accepted(t, 5)
			later.ahead = time.Minute
			use(t, later)
			stream, err := s.js.Stream(t.Context(), "EVENTS_space")
			require.NoError(t, err)
			purge(t, stream, "events.space.s")
			s.user().is(t, durable.Duplicate, "p", 0, 4)
		})
	}
}

// What NATS clients write on events as if it were a note of ours is none, not even one of ours on another event.
func TestNote_ForgedOnesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	u.create(t, durable.Create{})
	u.accepted(t, 4)
	stream, err := s.js.Stream(t.Context(), "EVENTS_space")
	require.NoError(t, err)
	real, err := stream.GetLastMsgForSubject(t.Context(), "events.space.s")
	require.NoError(t, err)
	note := real.Header.Get("Sluice-Note")
	require.NotEmpty(t, note)
	for _, forged := range []string{note, "x.y.z", "", "..", note[:len(note)-16] + strings.Repeat("A", 16)} {
		_, err = s.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.space.s", Header: nats.Header{"Sluice-Note": {forged}, "Nats-Msg-Id": {forged + "x"}}})
		require.NoError(t, err)
	}
	purgeTo(t, stream, "events.space.s", real.Sequence+1)
	s.user().is(t, durable.Accepted, "p", 0, 1) // the batch that made the record has 0; the notes are gone
}

// A note of a stream that is no more, that is sent again when JetStream has forgotten its id, says nothing.
func TestNote_OfAnEarlierStreamIsIgnored(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	_, _, err := s.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: s.name, DedupWindow: sluice.Duration(time.Second)})
	require.NoError(t, err)
	u := s.user()
	u.create(t, durable.Create{})
	u.accepted(t, 6)
	stream, err := s.js.Stream(t.Context(), "EVENTS_space")
	require.NoError(t, err)
	old, err := stream.GetLastMsgForSubject(t.Context(), "events.space.s")
	require.NoError(t, err)
	old.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	old.Header.Del(jetstream.ExpectedLastSubjSeqSubjHeader)
	require.NoError(t, u.engine.Delete(t.Context(), u.key()))
	u.create(t, durable.Create{})
	u.accepted(t, 3)
	require.Eventually(t, func() bool {
		ack, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: old.Subject, Header: old.Header, Data: old.Data})
		return err == nil && !ack.Duplicate
	}, patience, 100*time.Millisecond)
	s.user().is(t, durable.Accepted, "p", 0, 3)
}

// Closing a stream leaves a record that knows its producers, and a producer that repeats a stored append is told so.
func TestClose_RecordsTheProducers(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	one, two := s.user(), s.user()
	one.create(t, durable.Create{})
	one.accepted(t, 4)
	done, err := two.append(t.Context(), durable.Append{Body: []byte("end"), Close: true})
	require.NoError(t, err)
	require.True(t, done.Closed)
	for _, u := range []*user{one, two, s.user()} {
		u.is(t, durable.Duplicate, "p", 0, 3)
		done, err := u.produce(t.Context(), "p", 0, 4)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
		require.True(t, done.Closed)
		_, err = u.append(t.Context(), durable.Append{Body: []byte("x")})
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	}
	require.Equal(t, "p:0:0,p:0:1,p:0:2,p:0:3,end", one.text(t))
}

// The producer that closed the stream may say so again, to any server.
func TestClose_CanBeRepeatedByItsProducer(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	u.create(t, durable.Create{})
	u.accepted(t, 3)
	last := durable.Append{Body: []byte("end"), Close: true, Producer: &durable.Claim{ID: "p", Seq: 3}}
	for i, who := range []*user{u, u, s.user()} {
		done, err := who.append(t.Context(), last)
		require.NoError(t, err)
		require.True(t, done.Closed)
		require.Equal(t, i > 0, done.Verdict == durable.Duplicate)
	}
	require.Equal(t, "p:0:0,p:0:1,p:0:2,end", u.text(t))
}

// A fork, and a stream made anew on a path, have no producers, and no engine remembers those of before.
func TestNote_IsNotInheritedByForksOrSuccessors(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	one, two := s.user(), s.user()
	one.create(t, durable.Create{})
	one.accepted(t, 4)
	fork := durable.Key{Namespace: s.name, Path: "/fork"}
	_, _, err := two.engine.Create(t.Context(), fork, durable.Create{ContentType: plain, Fork: &durable.ForkWish{From: path}})
	require.NoError(t, err)
	for seq := range int64(3) {
		_, err = one.engine.Append(t.Context(), fork, durable.Append{ContentType: plain, Body: []byte("x"), Producer: &durable.Claim{ID: "p", Seq: seq}})
		require.NoError(t, err)
	}
	one.is(t, durable.Accepted, "p", 0, 4)
	require.NoError(t, two.engine.Delete(t.Context(), fork))
	require.NoError(t, two.engine.Delete(t.Context(), two.key()))
	for _, seq := range []int64{4, 5} { // even what it knows to be stored, and so need not store
		_, err = one.produce(t.Context(), "p", 0, seq)
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	}
	two.create(t, durable.Create{})
	one.is(t, durable.Gap, "p", 0, 5)
	one.accepted(t, 3)
	s.user().is(t, durable.Duplicate, "p", 0, 2)
}

// What an engine remembers of a stream it does not decide by: others have closed it, made it anew, and used it.
func TestMemory_IsCheckedAgainstTheStore(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	one, two := s.user(), s.user()
	one.create(t, durable.Create{})
	add := func(contentType string) error {
		_, err := one.append(t.Context(), durable.Append{ContentType: contentType, Body: []byte("1")})
		return err
	}
	require.NoError(t, add(plain))
	require.NoError(t, two.engine.Delete(t.Context(), two.key()))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(add(plain)))
	two.create(t, durable.Create{ContentType: "application/json"})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(add(plain)))
	require.NoError(t, add("application/json"))
	require.NoError(t, two.engine.Delete(t.Context(), two.key()))
	two.create(t, durable.Create{})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(add("application/json")))
	require.NoError(t, add(plain))
	_, err := two.append(t.Context(), durable.Append{Close: true})
	require.NoError(t, err)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(add(plain)))
	require.Equal(t, "1", one.text(t))
}

// In the log of a namespace that was made anew a record may have the revision of one before.
func TestMemory_ForgetsTheRecreatedNamespace(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	for _, contentType := range []string{plain, "application/json"} {
		u.create(t, durable.Create{ContentType: contentType})
		for seq := range int64(3) {
			_, err := u.append(t.Context(), durable.Append{ContentType: contentType, Body: []byte("1"), Producer: &durable.Claim{ID: "p", Seq: seq}})
			require.NoError(t, err)
			_, err = u.append(t.Context(), durable.Append{ContentType: contentType, Body: []byte("1")})
			require.NoError(t, err)
		}
		require.NoError(t, s.store.Namespaces().Delete(t.Context(), s.name))
		u.engine.Forget(s.name)
		_, _, err := s.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: s.name})
		require.NoError(t, err)
	}
}

// A producer's appends keep a stream alive as any use does.
func TestTTL_NotedAppendsRenewIt(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, other := s.user(), s.user()
	ttl := 100 * time.Second
	u.create(t, durable.Create{Lifetime: durable.Lifetime{TTL: &ttl}})
	for seq := range int64(60) {
		u.ahead += 3 * time.Second
		u.is(t, durable.Accepted, "p", 0, seq)
	}
	other.ahead = u.ahead + 95*time.Second
	other.is(t, durable.Duplicate, "p", 0, 59)
	u.ahead += 300 * time.Second
	_, err := u.produce(t.Context(), "p", 0, 60)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// What an engine held it lets go, with a record that says all.
func TestEngine_EndWritesCompleteRecords(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	u.create(t, durable.Create{})
	end := u.run(t)
	u.accepted(t, 5)
	end()
	data, _, err := s.store.Log.PathRecord(t.Context(), s.name, path)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"owner"`)
	require.Contains(t, string(data), `"p":{"epoch":0,"seq":4`)
}
