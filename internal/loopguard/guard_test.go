package loopguard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// memory is a log and marks without NATS, for the decision; it counts look-ups.
type memory struct {
	mu      sync.Mutex
	events  map[string]sluice.Event
	lookups int
	err     error
	marks   map[string]sluice.Unsafe
	revs    map[string]uint64
}

func newMemory() *memory {
	return &memory{events: map[string]sluice.Event{}, marks: map[string]sluice.Unsafe{}, revs: map[string]uint64{}}
}

func (m *memory) RecentByID(_ context.Context, _, id string) (sluice.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookups++
	if m.err != nil {
		return sluice.Event{}, m.err
	}
	e, ok := m.events[id]
	if !ok {
		return e, sluice.Errorf(sluice.NotFound, "no %q", id)
	}
	return e, nil
}

func (m *memory) LastSeq(context.Context, string) (uint64, error) { return uint64(len(m.events)), nil }

func (m *memory) Mark(_ context.Context, producer string) (sluice.Unsafe, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.marks[producer]
	if !ok {
		return is, 0, sluice.Errorf(sluice.NotFound, "no mark")
	}
	return is, m.revs[producer], nil
}

func (m *memory) PutMark(_ context.Context, is sluice.Unsafe, revision uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revs[is.Producer] != revision {
		return 0, sluice.Errorf(sluice.Conflict, "changed")
	}
	m.marks[is.Producer] = is
	m.revs[is.Producer]++
	return m.revs[is.Producer], nil
}

// store appends an event as the log does.
func (m *memory) store(e sluice.Event) sluice.Event {
	e.Seq = uint64(len(m.events) + 1)
	m.events[e.ID] = e
	return e
}

func newGuard(tb testing.TB, m *memory, opts loopguard.Options) *loopguard.Guard {
	tb.Helper()
	g, err := loopguard.New(m, m, opts)
	require.NoError(tb, err)
	g.CaughtUp()
	return g
}

func event(id, kind string, path sluice.Path, cause string) sluice.Event {
	e := sluice.Event{Namespace: "acme", ID: id, Type: kind, Path: path, Source: "/s"}
	if cause != "" {
		e.Extensions = map[string]string{sluice.CausationID: cause}
	}
	return e
}

// requireLoop returns the details of an error that has to be of a loop.
func requireLoop(tb testing.TB, err error) map[string]any {
	tb.Helper()
	require.Equal(tb, sluice.EventLoopDetected, sluice.CodeOf(err), "%v", err)
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(tb, ok)
	return e.Details
}

// S4-82: the details name the chain.
func TestLoop_IsRefusedAndMarksItsProducer(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var loops int
	g := newGuard(t, m, loopguard.Options{Looped: func(string) { loops++ }})
	ctx := t.Context()
	m.store(event("a", "paid", "/orders/7", ""))
	m.store(event("b", "made", "/invoices/7", "a"))
	again := []sluice.Event{event("c", "paid", "/orders/7", "b")}
	e := requireLoop(t, g.CheckNew(ctx, "acme", "user:ann", again))
	require.Equal(t, []sluice.Link{{ID: "b", Type: "made", Path: "/invoices/7"}, {ID: "a", Type: "paid", Path: "/orders/7"}}, withoutPlace(e["chain"]))
	require.Equal(t, 2, e["hops"])
	require.Nil(t, e["unsafe"])
	require.Equal(t, uint64(1), m.marks["user:ann"].Count)
	require.Equal(t, "c", m.marks["user:ann"].Event.ID)

	held := requireLoop(t, g.CheckNew(ctx, "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "a")}))
	require.Equal(t, []any{true, "user:ann"}, []any{held["unsafe"], held["producer"]})
	require.NoError(t, g.CheckNew(ctx, "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "")}), "without a cause it passes")
	require.NoError(t, g.CheckNew(ctx, "acme", "user:bob", []sluice.Event{event("d", "x", "/x", "a")}), "others do, too")
	require.Equal(t, 1, loops)

	g.ForgetMark("user:ann", m.revs["user:ann"])
	require.NoError(t, g.CheckNew(ctx, "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "a")}))
	g.SetMark(m.marks["user:ann"], m.revs["user:ann"])
	require.NoError(t, g.CheckNew(ctx, "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "a")}), "the mark that was cleared is told late")
	g.SetMark(m.marks["user:ann"], m.revs["user:ann"]+2)
	requireLoop(t, g.CheckNew(ctx, "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "a")}))
}

// An instruction that comes to itself is cut off, and no producer is marked: its maker published nothing.
func TestLoop_OfInstructionsMarksNoProducer(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var loops int
	g := newGuard(t, m, loopguard.Options{Looped: func(string) { loops++ }})
	m.store(event("a", "paid", "/orders/7", ""))
	m.store(event("b", "made", "/invoices/7", "a"))
	again, other := event("c", "paid", "/orders/7", "b"), event("c", "paid", "/orders/8", "b")
	requireLoop(t, g.CheckReaction(t.Context(), "acme", "user:ann", &again))
	require.Equal(t, 1, loops)
	require.Empty(t, m.marks)
	require.NoError(t, g.CheckReaction(t.Context(), "acme", "user:ann", &other))
	g.SetMark(sluice.Unsafe{Producer: "user:ann"}, 1)
	requireLoop(t, g.CheckReaction(t.Context(), "acme", "user:ann", &other))
	m.err = errors.New("no answer")
	unknown := event("d", "x", "/x", "not-in-memory")
	require.ErrorIs(t, g.CheckReaction(t.Context(), "acme", "user:bob", &unknown), m.err)
}

func withoutPlace(chain any) []sluice.Link {
	links, _ := chain.([]sluice.Link)
	links = slices.Clone(links)
	for i := range links {
		links[i].Cause, links[i].Seq = "", 0
	}
	return links
}

func TestMarks_AreReadFromTheStoreAtFirst(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.marks["user:ann"], m.revs["user:ann"] = sluice.Unsafe{Producer: "user:ann"}, 1
	g, err := loopguard.New(m, m, loopguard.Options{})
	require.NoError(t, err)
	requireLoop(t, g.CheckNew(t.Context(), "acme", "user:ann", []sluice.Event{event("d", "x", "/x", "a")}))
	require.NoError(t, g.CheckNew(t.Context(), "acme", "user:bob", []sluice.Event{event("d", "x", "/x", "a")}))
}

func TestCause_MayBeEarlierInTheBatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	ctx := t.Context()
	require.NoError(t, g.CheckNew(ctx, "acme", "p", []sluice.Event{event("a", "t", "/1", ""), event("b", "t", "/2", "a"), event("c", "t", "/3", "b")}))
	require.NoError(t, g.CheckNew(ctx, "acme", "p", []sluice.Event{event("a", "t", "/1", "b"), event("b", "t", "/1", "")}), "what comes later is no cause")
	err := g.CheckNew(ctx, "acme", "p", []sluice.Event{event("a", "t", "/1", ""), event("b", "t", "/2", "a"), event("c", "t", "/1", "b")})
	require.Equal(t, 2, requireLoop(t, err)["index"])
	require.True(t, strings.HasPrefix(err.Error(), "event [2] of the batch: "), "%v", err)
	requireLoop(t, g.CheckNew(ctx, "acme", "q", []sluice.Event{event("a", "t", "/1", "a")}))
}

// What is published once more is not stored again: the chain of others goes through what is stored.
func TestCause_DuplicateInTheBatchDoesNotHideALoop(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("a", "t", "/1", ""))
	m.store(event("b", "t", "/2", "a"))
	e := requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("a", "u", "/9", ""), event("c", "t", "/1", "b")}))
	require.Equal(t, []any{1, 2}, []any{e["index"], e["hops"]})
}

func TestWalk_LocalEventsCostNoLookUp(t *testing.T) {
	t.Parallel()
	m := newMemory()
	here, there := newGuard(t, m, loopguard.Options{}), newGuard(t, m, loopguard.Options{})
	for i := range sluice.MaxHops {
		cause := ""
		if i > 0 {
			cause = strconv.Itoa(i - 1)
		}
		e := []sluice.Event{event(strconv.Itoa(i), "t", sluice.Path(fmt.Sprintf("/%d", i)), cause)}
		require.NoError(t, here.CheckNew(t.Context(), "acme", "p", e))
		here.Published("acme", e, []sluice.Stored{{ID: e[0].ID, Seq: m.store(e[0]).Seq}})
	}
	last := []sluice.Event{event("last", "t", "/last", "31")}
	require.NoError(t, here.CheckNew(t.Context(), "acme", "p", last))
	require.Zero(t, m.lookups)
	require.NoError(t, there.CheckNew(t.Context(), "acme", "p", last))
	require.Equal(t, sluice.MaxHops, m.lookups)
	require.NoError(t, there.CheckNew(t.Context(), "acme", "p", last))
	require.Equal(t, sluice.MaxHops, m.lookups, "once")
}

func TestCause_UnknownOneIsAnotherError(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.err = sluice.Errorf(sluice.Unavailable, "away")
	g := newGuard(t, m, loopguard.Options{})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("b", "t", "/1", "a")})))
	e := event("b", "t", "/1", "a")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(g.Check(t.Context(), &e)))
	m.err = nil
	require.NoError(t, g.Check(t.Context(), &e))
	require.Empty(t, m.marks)
}

// Decision 0014: the source of what came by NATS is marked, and what the server stamped passes.
func TestLoop_InTheLogMarksItsSourceOnce(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("a", "t", "/1", ""))
	e := m.store(event("b", "t", "/1", "a"))
	for range 3 { // subscriptions
		requireLoop(t, g.Check(t.Context(), &e))
	}
	require.Equal(t, uint64(1), m.marks["source:acme:/s"].Count)
	other := m.store(event("c", "t", "/2", "a"))
	requireLoop(t, g.Check(t.Context(), &other))
	stamped := m.store(event("d", "t", "/2", "a"))
	stamped.Extensions[sluice.AuthID] = "root"
	require.NoError(t, g.Check(t.Context(), &stamped))
	plain := m.store(event("e", "t", "/2", ""))
	require.NoError(t, g.Check(t.Context(), &plain))
}

// Publishers on NATS choose their sources: loops beyond the bound of marks are refused all the same.
func TestMarks_AreBounded(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	for i := range 10_000 {
		g.SetMark(sluice.Unsafe{Producer: strconv.Itoa(i)}, 1)
	}
	m.store(event("a", "t", "/1", ""))
	e := m.store(event("b", "t", "/1", "a"))
	requireLoop(t, g.Check(t.Context(), &e))
	require.Empty(t, m.marks)
}

func TestLoop_ConcurrentOnesAreAllCounted(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("a", "t", "/1", ""))
	var publishers sync.WaitGroup
	for i := range 8 {
		publishers.Go(func() {
			for n := range 50 {
				err := g.CheckNew(context.WithoutCancel(t.Context()), "acme", "p", []sluice.Event{event(fmt.Sprintf("%d-%d", i, n), "t", "/1", "a")})
				if sluice.CodeOf(err) != sluice.EventLoopDetected {
					t.Errorf("%v", err)
				}
			}
		})
	}
	publishers.Wait()
	require.Equal(t, uint64(400), m.marks["p"].Count)
}

// naive looks at the whole log, backwards; at is where the event is, or will be.
func naive(log []sluice.Event, at int, e *sluice.Event) bool {
	hops, cause := 0, e.Extensions[sluice.CausationID]
	if cause == e.ID {
		return true
	}
	for cause != "" {
		hops++
		found := slices.IndexFunc(log[:at], func(o sluice.Event) bool { return o.ID == cause })
		if hops > sluice.MaxHops {
			return true
		}
		if found < 0 {
			return false
		}
		if o := &log[found]; o.Type == e.Type && o.Path == e.Path {
			return true
		}
		at, cause = found, log[found].Extensions[sluice.CausationID]
	}
	return false
}

// play is a log that fills with what a fuzzer says.
type play struct {
	t     *testing.T
	m     *memory
	g     *loopguard.Guard
	log   []sluice.Event
	moves int
}

// batch reads events from the data, four bytes each; refused is the first of them that a naive
// look at the log refuses, -1 if none is.
func (p *play) batch(data []byte, size int) (batch []sluice.Event, refused int, rest []byte) {
	all := slices.Clone(p.log)
	refused = -1
	for ; len(batch) < size && len(data) >= 4; data = data[4:] {
		at := len(all)
		e := event(fmt.Sprintf("e%d", at), fmt.Sprint("t", data[1]%3), sluice.Path(fmt.Sprint("/", data[2]%64)), "")
		e.Source = fmt.Sprint("p", p.moves) // no producer is held by a mark
		if back := int(data[3]) % 48; back > 0 {
			e.Extensions = map[string]string{sluice.CausationID: fmt.Sprintf("e%d", at+2-back)} // itself, and later ones, too
		}
		if refused < 0 && naive(all, at, &e) {
			refused = len(batch)
		}
		batch, all = append(batch, e), append(all, e)
	}
	return batch, refused, data
}

// nats stores events unchecked, and compares what is said of each.
func (p *play) nats(batch []sluice.Event) {
	for _, e := range batch {
		p.log = append(p.log, p.m.store(e))
		p.check(len(p.log) - 1)
	}
}

// check compares what is said of an event of the log. No mark is left behind.
func (p *play) check(at int) {
	e := &p.log[at]
	err := p.g.Check(p.t.Context(), e)
	require.Equal(p.t, naive(p.log, at, e), sluice.CodeOf(err) == sluice.EventLoopDetected, "%+v: %v", e, err)
	producer := sluice.SourceProducer("acme", e.Source)
	delete(p.m.marks, producer)
	p.g.ForgetMark(producer, p.m.revs[producer])
}

// publish publishes events over the API, at another replica if the way is 1.
func (p *play) publish(batch []sluice.Event, refused, way int) {
	err := p.g.CheckNew(p.t.Context(), "acme", batch[0].Source, batch)
	if refused >= 0 {
		if index := requireLoop(p.t, err)["index"]; len(batch) > 1 {
			require.Equal(p.t, refused, index)
		}
		return
	}
	require.NoError(p.t, err)
	stored := make([]sluice.Stored, len(batch))
	for i := range batch {
		batch[i] = p.m.store(batch[i])
		stored[i] = sluice.Stored{ID: batch[i].ID, Seq: batch[i].Seq}
	}
	if way > 1 {
		p.g.Published("acme", batch, stored)
	}
	p.log = append(p.log, batch...)
}

// FuzzChains publishes batches over the API and single events by NATS, and compares every decision
// with the naive one. What was let in by the API is never refused when it is delivered.
func FuzzChains(f *testing.F) {
	f.Add([]byte{1, 0, 0, 1, 1, 1, 2, 0, 0})
	long := make([]byte, 0, 400)
	for i := range 100 {
		long = append(long, byte(4+i%3), byte(i), 1, byte(i))
	}
	f.Add(long)
	straight := make([]byte, 0, 400)
	for i := range 100 {
		straight = append(straight, byte(1+i%3), 0, byte(i), 3) // each caused by the one before
	}
	f.Add(straight)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 600)]
		m := newMemory()
		p := &play{t: t, m: m, g: newGuard(t, m, loopguard.Options{})}
		for ; len(data) >= 4; p.moves++ {
			way := data[0] % 4
			var batch []sluice.Event
			var refused int
			batch, refused, data = p.batch(data, 1+int(data[0]>>2)%4)
			if way == 0 {
				p.nats(batch)
			} else {
				p.publish(batch, refused, int(way))
			}
		}
		for at := range p.log {
			p.check(at)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for _, hops := range []int{0, 1, 8, 32} {
		b.Run(fmt.Sprintf("%d hops", hops), func(b *testing.B) {
			m := newMemory()
			g := newGuard(b, m, loopguard.Options{})
			e := m.store(event("0", "t", "/0", ""))
			for i := range hops {
				e = m.store(event(strconv.Itoa(i+1), "t", sluice.Path(fmt.Sprintf("/%d", i+1)), strconv.Itoa(i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Check(b.Context(), &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for name, cause := range map[string]string{"without a cause": "", "with one": "0"} {
		b.Run(name, func(b *testing.B) {
			m := newMemory()
			g := newGuard(b, m, loopguard.Options{})
			m.store(event("0", "t", "/0", ""))
			batch, stored := []sluice.Event{event("1", "t", "/1", cause)}, []sluice.Stored{{ID: "1", Seq: 2}}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.CheckNew(b.Context(), "acme", "p", batch); err != nil {
					b.Fatal(err)
				}
				g.Published("acme", batch, stored)
			}
		})
	}
}
