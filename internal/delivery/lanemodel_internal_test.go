package delivery

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// bookModel is a book whose tasks end in any order and any way, and what its lanes are to deliver.
type bookModel struct {
	b      *laneTable
	now    time.Time
	last   uint64
	log    map[string][]uint64 // what arrived, by lane
	done   map[string][]uint64 // what was delivered or discarded, in the order in which that happened
	tasks  []task
	acts   []*act
	failed bool // heads can fail
}

func (m *bookModel) arrive(rt *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "lane")
	m.last++
	m.log[key] = append(m.log[key], m.last)
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		m.b.arrive(key, deliveryAt(m.last))
	}
	if l, done := m.b.lanes[key], m.done[key]; l.park != nil && len(done) > 0 {
		upTo := l.park.upTo
		require.True(rt, m.b.arrive(key, deliveryAt(done[len(done)-1])), "what lies before the record is done with")
		require.Equal(rt, upTo, l.park.upTo)
	}
}

// take takes a task, if there is one.
func (m *bookModel) take(rt *rapid.T, may breaker.Permit) {
	can := m.b.canSend(m.now, may)
	t, ok := m.b.next(m.now, may)
	require.Equal(rt, can, ok)
	if !ok {
		return
	}
	require.True(rt, t.lane.busy)
	require.False(rt, slices.ContainsFunc(m.tasks, func(other task) bool { return other.lane == t.lane }), "one task of a lane at once")
	asks := t.kind == taskSend || t.kind == taskSpill || t.kind == taskResume
	require.False(rt, may == breaker.None && asks, "nothing may be sent")
	require.False(rt, may == breaker.Probe && t.kind == taskSpill)
	m.tasks = append(m.tasks, t)
}

// end ends a task.
func (m *bookModel) end(rt *rapid.T, i int) {
	t := m.tasks[i]
	m.tasks = slices.Delete(m.tasks, i, i+1)
	key, b := t.lane.key, m.b
	how := 0
	if m.failed {
		how = rapid.IntRange(0, 3).Draw(rt, "how it ends")
	}
	later := m.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
	switch {
	case t.kind == taskUnpark:
		b.unparked(t.lane)
	case t.kind == taskRelease:
		t.park.Held, t.park.NextAt = "", m.now
		b.acted(t.lane, t.park, m.now)
	case t.kind == taskDiscard:
		m.done[key] = append(m.done[key], t.park.FromSeq)
		t.park.moveTo(t.park.FromSeq + 1)
		b.acted(t.lane, t.park, m.now)
	case t.kind == taskResume:
		m.resume(&t.park, key, how, later)
		b.resumed(t.lane, t.park)
	case t.kind == taskSend && how == 0:
		m.done[key] = append(m.done[key], b.settled(t.lane, 0)[0].Event.Seq)
	case t.kind == taskSend && how == 1:
		b.unblock(t.lane)
	default:
		e := model.ParkedEntry{Parked: sluice.Parked{Lane: key, FromSeq: t.head.Event.Seq, EventID: "e", NextAt: later}}
		if how == 3 && t.kind == taskSend {
			e.Held = sluice.Exhausted
		}
		b.stored(t.lane, e, m.now)
	}
}

// resume does to a record what the next event of its lane does: it is delivered, or fails, or is held.
func (m *bookModel) resume(p *park, key string, how int, later time.Time) {
	i := slices.IndexFunc(m.log[key], func(seq uint64) bool { return seq >= p.FromSeq && seq <= p.upTo })
	switch {
	case i < 0:
		p.moveTo(p.upTo + 1)
	case how == 0:
		m.done[key] = append(m.done[key], m.log[key][i])
		p.moveTo(m.log[key][i] + 1)
	default:
		p.FromSeq, p.EventID, p.NextAt = m.log[key][i], "e", later
		if how == 3 {
			p.Held = sluice.Exhausted
		}
	}
}

// decide has something done with the head of a held lane.
func (m *bookModel) decide(rt *rapid.T) {
	kind := rapid.SampledFrom([]sluice.ReplayKind{sluice.ReplayRetry, sluice.ReplayDiscard}).Draw(rt, "act")
	for _, key := range []string{"a", "b", "c"} {
		if l := m.b.lanes[key]; l != nil && l.park != nil && l.park.Held != "" && !l.busy {
			a := newAct(kind, l.park.FromSeq)
			m.acts = append(m.acts, a)
			m.b.act(a, m.now)
			return
		}
	}
}

func (m *bookModel) step(rt *rapid.T) {
	switch what := rapid.IntRange(0, 9).Draw(rt, "what"); {
	case what < 3:
		m.arrive(rt)
	case what < 6:
		m.take(rt, rapid.SampledFrom([]breaker.Permit{breaker.None, breaker.Probe, breaker.All, breaker.All}).Draw(rt, "pass"))
	case what < 8 && len(m.tasks) > 0:
		m.end(rt, rapid.IntRange(0, len(m.tasks)-1).Draw(rt, "task"))
	case what == 8:
		m.decide(rt)
	default:
		m.now = m.now.Add(time.Second)
	}
}

// check compares what the lane table counts with what its lanes are.
func (m *bookModel) check(rt *rapid.T) {
	var busy, parked, held, queued int
	for key, l := range m.b.lanes {
		require.Equal(rt, key, l.key)
		require.True(rt, l.busy || l.park != nil || len(l.queue) > 0, "a lane with nothing to do goes")
		require.True(rt, l.busy || l.queued || l.park != nil && (l.park.Held != "" || l.park.index >= 0), "nothing waits for ever")
		require.True(rt, slices.IsSortedFunc(l.queue, func(a, b *model.Delivery) int { return cmp.Compare(a.Event.Seq, b.Event.Seq) }))
		queued += len(l.queue)
		if l.busy {
			busy++
		}
		if l.park != nil {
			parked++
			if l.park.Held != "" {
				held++
			} else {
				require.Empty(rt, l.acts)
			}
		}
	}
	require.Equal(rt, []int{busy, parked, held, queued}, []int{m.b.busy, m.b.parked, m.b.heldLanes, len(m.b.held)})
	require.Equal(rt, len(m.tasks), busy)
	require.LessOrEqual(rt, busy, m.b.window)
	for i, l := range m.b.due {
		require.Equal(rt, i, l.park.index)
	}
	require.Equal(rt, len(m.b.lanes) == 0, m.b.empty())
}

// With any outcome of its tasks, each lane delivers all its events, in their order, each once.
func TestBook_LosesAndRepeatsNothing(t *testing.T) { // S4-17, S4-18
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &bookModel{b: newLaneTable(rapid.IntRange(1, 4).Draw(rt, "window")), now: time.Unix(1, 0), log: map[string][]uint64{}, done: map[string][]uint64{}, failed: true}
		m.b.patience = time.Duration(rapid.IntRange(0, 1).Draw(rt, "patience")) * time.Second
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			m.step(rt)
			m.check(rt)
		}
		m.failed = false
		for rounds := 0; !m.b.empty(); rounds++ {
			require.Less(rt, rounds, 2000)
			m.now = m.now.Add(time.Second)
			m.decide(rt)
			m.take(rt, breaker.All)
			if len(m.tasks) > 0 {
				m.end(rt, 0)
			}
			m.check(rt)
		}
		require.Equal(rt, m.log, m.done)
		for _, a := range m.acts {
			require.Len(rt, a.done, 1, "each act is answered")
		}
	})
}
