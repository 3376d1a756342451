package eventlog_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// put stores an event and returns its sequence.
func put(tb testing.TB, store rooms, path sluice.Path) uint64 {
	tb.Helper()
	stored, err := store.Publish(tb.Context(), ns, []sluice.Event{{Path: path, ID: fmt.Sprintf("%s-%d", path, time.Now().UnixNano())}})
	require.NoError(tb, err)
	return stored[0].Seq
}

// stateOf returns where the last events lie of every page of a state, and what it is as of.
func stateOf(tb testing.TB, store rooms, q model.StateQuery) (map[sluice.Path]uint64, uint64) {
	tb.Helper()
	all := map[sluice.Path]uint64{}
	for range 100_000 {
		page, err := store.State(tb.Context(), ns, q)
		require.NoError(tb, err)
		require.True(tb, q.At == 0 || page.Seq == q.At, "every page is as of the same")
		q.At, q.After = page.Seq, page.Next
		for _, e := range page.Events {
			require.LessOrEqual(tb, e.Seq, page.Seq)
			require.NotContains(tb, all, e.Path, "a path is in one page")
			all[e.Path] = e.Seq
		}
		if page.Next == 0 {
			return all, page.Seq
		}
	}
	require.Fail(tb, "the state has no end")
	return nil, 0
}

func TestState_IsTheLastEventOfEveryPath(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	for _, path := range []sluice.Path{"/a", "/a/b", "/c", "/a/b", "/a/b/c", "/a", "/x/b"} {
		put(t, store, path)
	}
	type state = map[sluice.Path]uint64
	tests := []struct {
		name string
		give model.StateQuery
		want state
	}{
		{"everything", model.StateQuery{}, state{"/a": 6, "/a/b": 4, "/a/b/c": 5, "/c": 3, "/x/b": 7}},
		{"in pages of one", model.StateQuery{Limit: 1}, state{"/a": 6, "/a/b": 4, "/a/b/c": 5, "/c": 3, "/x/b": 7}},
		{"as of then", model.StateQuery{At: 4}, state{"/a": 1, "/a/b": 4, "/c": 3}},
		{"as of then, in pages", model.StateQuery{At: 4, Limit: 2}, state{"/a": 1, "/a/b": 4, "/c": 3}},
		{"as of the first", model.StateQuery{At: 1}, state{"/a": 1}},
		{"a path and what is below it", model.StateQuery{Pattern: "/a/**"}, state{"/a": 6, "/a/b": 4, "/a/b/c": 5}},
		{"one star", model.StateQuery{Pattern: "/*/b"}, state{"/a/b": 4, "/x/b": 7}},
		{"stars inside", model.StateQuery{Pattern: "/**/b"}, state{"/a/b": 4, "/x/b": 7}},
		{"a literal", model.StateQuery{Pattern: "/c"}, state{"/c": 3}},
		{"one path", model.StateQuery{Path: "/a/b"}, state{"/a/b": 4}},
		{"one path as of then", model.StateQuery{Path: "/a", At: 5}, state{"/a": 1}},
		{"nothing", model.StateQuery{Pattern: "/none"}, state{}},
		{"not yet", model.StateQuery{Pattern: "/x/**", At: 6}, state{}},
		{"only what may be seen", model.StateQuery{Limit: 1, Visible: func(e *sluice.Event) bool { return e.Seq != 6 }}, state{"/a/b": 4, "/a/b/c": 5, "/c": 3, "/x/b": 7}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, _ := stateOf(t, store, test.give)
			require.Equal(t, test.want, got)
		})
	}
}

func TestState_RefusesUnavailableSequences(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	page, err := store.State(t.Context(), ns, model.StateQuery{})
	require.NoError(t, err)
	require.Equal(t, model.StatePage{}, page, "of an empty log")
	for range 5 {
		put(t, store, "/a")
	}
	stream, err := natstest.JetStream(t, server).Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(4)))
	for name, test := range map[string]struct {
		ns   string
		give model.StateQuery
		want sluice.Code
	}{
		"of no namespace":      {"nowhere", model.StateQuery{}, sluice.NotFound},
		"of no pattern":        {ns, model.StateQuery{Pattern: "a"}, sluice.InvalidRequest},
		"to come":              {ns, model.StateQuery{At: 6}, sluice.InvalidRequest},
		"before what is kept":  {ns, model.StateQuery{At: 2}, sluice.WindowExceeded},
		"beyond what it is of": {ns, model.StateQuery{At: 4, After: 5}, sluice.InvalidRequest},
	} {
		_, err := store.State(t.Context(), test.ns, test.give)
		require.Equal(t, test.want, sluice.CodeOf(err), "%s: %v", name, err)
	}
	page, err = store.State(t.Context(), ns, model.StateQuery{At: 3})
	require.NoError(t, err, "what follows is kept")
	require.Empty(t, page.Events)
	require.NoError(t, stream.Purge(t.Context()))
	page, err = store.State(t.Context(), ns, model.StateQuery{})
	require.NoError(t, err)
	require.Equal(t, model.StatePage{Seq: 5, First: 6}, page, "everything has left")
}

// What lies on a path and is no event hides none.
func TestState_IgnoresOtherMessages(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	put(t, store, "/a")
	put(t, store, "/b")
	for _, subject := range []string{"a", "a", "none", "a=41"} {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "events." + ns + "." + subject, Data: []byte("{"), Header: nats.Header{"content-type": {"application/cloudevents+json"}},
		})
		require.NoError(t, err)
	}
	got, at := stateOf(t, store, model.StateQuery{})
	require.Equal(t, map[sluice.Path]uint64{"/a": 1, "/b": 2}, got)
	require.Equal(t, uint64(6), at)

	stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	last := put(t, store, "/b")
	require.NoError(t, stream.DeleteMsg(t.Context(), last))
	got, at = stateOf(t, store, model.StateQuery{})
	require.Equal(t, map[sluice.Path]uint64{"/a": 1, "/b": 2}, got, "the last that is kept")
	require.Equal(t, last, at)
}

// A map that is made of a state, and of the events after what it is as of, is the state again, while others publish.
func TestState_PlusFollowingEventsIsComplete(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	const publishers, rounds = 4, 60
	var group sync.WaitGroup
	for p := range publishers {
		group.Go(func() { publishAround(t, store, p, rounds) })
	}
	type sample struct {
		state map[sluice.Path]uint64
		at    uint64
	}
	var samples []sample
	for range 20 {
		state, at := stateOf(t, store, model.StateQuery{Limit: 9})
		samples = append(samples, sample{state, at})
	}
	group.Wait()
	final, end := stateOf(t, store, model.StateQuery{})
	require.Equal(t, uint64(publishers*rounds), end)
	log, err := store.Events(t.Context(), ns, model.EventQuery{Limit: 1000})
	require.NoError(t, err)
	for _, sampled := range samples {
		latest := map[sluice.Path]uint64{}
		apply(latest, log.Events, 0, sampled.at)
		require.Equal(t, latest, sampled.state, "as of %d", sampled.at)
		apply(sampled.state, log.Events, sampled.at, end)
		require.Equal(t, final, sampled.state)
	}
}

// publishAround publishes events one by one, on paths that others publish on, too.
func publishAround(t *testing.T, store rooms, who, times int) {
	t.Helper()
	for i := range times {
		path := sluice.Path("/k/" + strconv.Itoa((i*7+who*11)%37))
		if _, err := store.Publish(t.Context(), ns, []sluice.Event{{Path: path, ID: fmt.Sprintf("%d-%d", who, i)}}); err != nil {
			t.Error(err)
			return
		}
	}
}

// apply enters the events after a sequence and up to another, as a reader of them does.
func apply(state map[sluice.Path]uint64, events []sluice.Event, after, upTo uint64) {
	for _, e := range events {
		if e.Seq > after && e.Seq <= upTo {
			state[e.Path] = e.Seq
		}
	}
}

// A message's block may be gone while JetStream still has it for the last one of a subject.
func TestState_SurvivesALostBlock(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	big := make([]byte, 700<<10)
	send := func(subject string, times int) (last uint64) {
		for range times {
			ack, err := js.Publish(t.Context(), "events."+ns+"."+subject, big)
			require.NoError(t, err)
			last = ack.Sequence
		}
		return last
	}
	first := send("a", 1)
	send("filler", 14)
	last := send("a", 1)
	end := send("filler", 26)
	stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), last))
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("events."+ns+".filler"), jetstream.WithPurgeSequence(end+1)))
	want := map[sluice.Path]uint64{"/a": first}
	check := func(queries ...model.StateQuery) {
		for _, q := range queries {
			got, _ := stateOf(t, store, q)
			require.Equal(t, want, got, "%+v", q)
		}
	}
	check(model.StateQuery{}, model.StateQuery{Path: "/a"}, model.StateQuery{At: last})
	send("other", 3)
	check(model.StateQuery{Pattern: "/a"}, model.StateQuery{Pattern: "/a", At: end}, model.StateQuery{Path: "/a", At: end + 1}, model.StateQuery{Path: "/a", At: last})
}
