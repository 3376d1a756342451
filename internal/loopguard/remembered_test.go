package loopguard_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A duplicate is not what its publisher wrote: the log keeps the first one, and chains go through that.
func TestPublished_DuplicateIsAsStored(t *testing.T) { // S4-79, S4-82
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("root", "t", "/1", ""))
	stored := m.store(event("dup", "t", "/2", "root"))
	wrote := event("dup", "t", "/9", "") // the same id without a cause would cut the chain
	g.Published("acme", []sluice.Event{wrote, event("more", "t", "/3", "")}, []sluice.Stored{{ID: "dup", Seq: stored.Seq, Duplicate: true}})
	e := requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("x", "t", "/1", "dup")}))
	require.Equal(t, 2, e["hops"])
}

// What is remembered of a published event has its place: a cause comes before what it causes.
func TestPublished_RemembersThePlace(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	first := m.store(event("first", "t", "/1", "second"))
	second := m.store(event("second", "t", "/1", ""))
	wrote := []sluice.Event{event("first", "t", "/1", "second"), event("second", "t", "/1", "")} // which have no place yet
	g.Published("acme", wrote, []sluice.Stored{{ID: "first", Seq: first.Seq}, {ID: "second", Seq: second.Seq}})
	require.NoError(t, g.Check(t.Context(), &first), "what came later is no cause")
	before := m.lookups
	requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("x", "t", "/1", "second")}))
	require.Equal(t, before, m.lookups, "it was remembered")
}

// An event that passed is remembered as a cause, and one that came of the log as well.
func TestCheck_RemembersPassedEvents(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("a", "t", "/1", ""))
	b := m.store(event("b", "t", "/2", "a"))
	require.NoError(t, g.Check(t.Context(), &b))
	before := m.lookups
	c := m.store(event("c", "t", "/3", "b"))
	require.NoError(t, g.Check(t.Context(), &c))
	require.Equal(t, before, m.lookups)
	d := m.store(event("d", "t", "/4", "unknown"))
	require.NoError(t, g.Check(t.Context(), &d))
	require.Equal(t, before+1, m.lookups)
	batch := []sluice.Event{event("e", "t", "/5", "gone"), event("f", "t", "/6", "gone")}
	require.NoError(t, g.CheckNew(t.Context(), "acme", "p", batch))
	require.Equal(t, before+2, m.lookups, "what is unknown is looked for once in a batch")
}

// Each event of the log is counted once, also if its id was used before.
func TestCheck_CountsEachLoopOnce(t *testing.T) {
	t.Parallel()
	m := newMemory()
	looped := 0
	g := newGuard(t, m, loopguard.Options{Looped: func(string) { looped++ }})
	m.store(event("a", "t", "/1", ""))
	e := m.store(event("b", "t", "/1", "a"))
	for range 2 {
		requireLoop(t, g.Check(t.Context(), &e))
	}
	require.Equal(t, 1, looped)
	e.Seq += 100 // the dedup window is over, and the id is used again
	requireLoop(t, g.Check(t.Context(), &e))
	require.Equal(t, 2, looped)
}

// The marks of which a replica is told replace those that it knew, and go when they are removed.
func TestMarks_FollowAnnouncements(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	reaction := []sluice.Event{event("d", "x", "/x", "a")}
	key := streams.ProducerKey("user:ann")
	g.SetMark(sluice.Unsafe{Producer: "user:ann"}, 5)
	requireLoop(t, g.CheckNew(t.Context(), "acme", "user:ann", reaction))
	g.RemoveMark(key, 5)
	requireLoop(t, g.CheckNew(t.Context(), "acme", "user:ann", reaction))
	g.RemoveMark(key, 6)
	require.NoError(t, g.CheckNew(t.Context(), "acme", "user:ann", reaction))
	m.marks["user:ann"], m.revs["user:ann"] = sluice.Unsafe{Producer: "user:ann"}, 9
	require.NoError(t, g.CheckNew(t.Context(), "acme", "user:ann", reaction), "all that are stored have been told of")
}

// Before the first mark is told, the store is asked, and what it cannot say is an error.
func TestMarks_AskTheStoreBeforeAllIsTold(t *testing.T) {
	t.Parallel()
	m := newMemory()
	broken := errors.New("no answer")
	s := failingStore{m, broken}
	g, err := loopguard.New(m, s, loopguard.Options{})
	require.NoError(t, err)
	ev := event("d", "x", "/x", "a")
	require.ErrorIs(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{ev}), broken)
	require.ErrorIs(t, g.CheckReaction(t.Context(), "acme", "p", &ev), broken)
	require.ErrorIs(t, g.Check(t.Context(), &ev), broken)
	g.SetMark(sluice.Unsafe{Producer: "p"}, 1)
	requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{ev}))
}

// A loop in a namespace that there is not is the caller's mistake, and marks no one.
func TestCheckNew_UnknownNamespaceMarksNoProducer(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g, err := loopguard.New(goneLog{m}, m, loopguard.Options{})
	require.NoError(t, err)
	g.CaughtUp()
	m.store(event("a", "t", "/1", ""))
	err = g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("b", "t", "/1", "a")})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.Empty(t, m.marks)
}

// The message names the reason: the same event again, or a chain without an end.
func TestRefusal_NamesTheReason(t *testing.T) { // S4-82
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("0", "t", "/0", ""))
	again := g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("x", "t", "/0", "0")})
	require.ErrorContains(t, again, `was caused by an event of the same type "t" on the same path /0`)
	for i := 1; i <= sluice.MaxHops; i++ {
		m.store(event(strconv.Itoa(i), "t", sluice.Path(fmt.Sprint("/", i)), strconv.Itoa(i-1)))
	}
	require.NoError(t, g.CheckNew(t.Context(), "acme", "q", []sluice.Event{event("x", "t", "/x", strconv.Itoa(sluice.MaxHops-1))}))
	long := g.CheckNew(t.Context(), "acme", "q", []sluice.Event{event("x", "t", "/x", strconv.Itoa(sluice.MaxHops))})
	require.ErrorContains(t, long, fmt.Sprintf("has a chain of more than %d causes", sluice.MaxHops))
	require.Equal(t, sluice.MaxHops+1, requireLoop(t, long)["hops"])
	require.Nil(t, requireLoop(t, long)["index"], "it is no batch")
}

// What NATS publishers write has no end; what is shown and stored of it has.
func TestMark_ShowsABoundedPart(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	for length, want := range map[int]int{256: 256, 257: 256 + len("…")} {
		id, kind := strings.Repeat("i", length), strings.Repeat("t", length)
		e := event(id, kind, "/1", id) // its own cause
		requireLoop(t, g.CheckNew(t.Context(), "acme", strconv.Itoa(length), []sluice.Event{e}))
		mark := m.marks[strconv.Itoa(length)]
		require.Len(t, mark.Event.ID, want)
		require.Len(t, mark.Event.Type, want)
		require.Len(t, mark.Chain[0].ID, want)
	}
}

// An id that is used again names the later event; what is too long to be remembered is looked up each time.
func TestPublished_BoundsItsMemory(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	caused := func(id string) error {
		return g.CheckNew(t.Context(), "acme", "by:"+id[:1], []sluice.Event{event("x", "t", "/x", id)})
	}
	g.Published("acme", []sluice.Event{event("used", "t", "/1", "")}, []sluice.Stored{{Seq: 1}})
	g.Published("acme", []sluice.Event{event("used", "t", "/x", "")}, []sluice.Stored{{Seq: 2}})
	requireLoop(t, caused("used"))
	for _, long := range []struct{ id, kind, path, cause int }{
		{2040, 1, 2, 5}, {1, 2040, 2, 5}, {1, 1, 2041, 5}, {5, 1, 2, 2040}, // 2048 bytes: the most
	} {
		e := event(strings.Repeat("i", long.id), strings.Repeat("t", long.kind), sluice.Path("/"+strings.Repeat("p", long.path-1)), strings.Repeat("c", long.cause))
		is := []sluice.Stored{{Seq: 3}}
		before := m.lookups
		m.events[e.ID] = e
		g.Published("acme", []sluice.Event{e}, is)
		require.NoError(t, caused(e.ID))
		require.Equal(t, before+1, m.lookups, "its cause")
		e.ID += "i"
		m.events[e.ID] = e
		g.Published("acme", []sluice.Event{e}, is)
		before = m.lookups
		require.NoError(t, caused(e.ID))
		require.Equal(t, before+2, m.lookups, "one byte more: its cause and itself")
	}
}

type failingStore struct {
	*memory

	err error
}

func (s failingStore) Mark(_ context.Context, producer string) (sluice.Unsafe, uint64, error) {
	return sluice.Unsafe{Producer: producer}, 0, s.err
}

// goneLog knows events, and no namespace.
type goneLog struct{ *memory }

func (goneLog) LastSeq(context.Context, string) (uint64, error) {
	return 0, sluice.Errorf(sluice.NotFound, "no such namespace")
}
