package knowledge

import (
	"container/heap"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// task is a job in memory that is not done. Its history is in its record.
type task struct {
	id    string
	kind  sluice.JobType
	entry sluice.EntryRef
	pair  *Pair  // of a comparison
	order uint64 // in which it was created
	due   time.Time
	state sluice.JobState

	in    *tasks // the heap that has it; nil: none
	place int
}

// queue holds the tasks that workers can claim now, by type, those that they can claim later, by
// time, and comparisons with a missing neighbour, by this. The lock of the space guards it. set,
// drop and take cost O(log n).
type queue struct {
	ready  map[sluice.JobType]*tasks
	later  *tasks
	parked map[sluice.EntryRef]*tasks // none is empty
}

func newQueue() queue {
	return queue{
		ready:  map[sluice.JobType]*tasks{sluice.JobEmbed: {less: older}, sluice.JobEmbedMirrored: {less: older}, sluice.JobCompare: {less: older}},
		later:  &tasks{less: func(a, b *task) bool { return a.due.Before(b.due) }},
		parked: map[sluice.EntryRef]*tasks{},
	}
}

func older(a, b *task) bool { return a.order < b.order }

// set queues a task that workers can claim from due on; a zero time is now.
func (q *queue) set(t *task, due time.Time) {
	q.drop(t)
	t.due = due
	t.in = q.later
	if due.IsZero() {
		t.in = q.ready[t.kind]
	}
	heap.Push(t.in, t)
}

func (q *queue) drop(t *task) {
	if t.in == nil {
		return
	}
	heap.Remove(t.in, t.place)
	if t.pair != nil && q.parked[t.pair.Against] != nil && q.parked[t.pair.Against].Len() == 0 {
		delete(q.parked, t.pair.Against)
	}
}

// park keeps a comparison until its neighbour comes back.
func (q *queue) park(t *task) {
	q.drop(t)
	t.in = q.parked[t.pair.Against]
	if t.in == nil {
		t.in = &tasks{less: older}
		q.parked[t.pair.Against] = t.in
	}
	heap.Push(t.in, t)
}

// unpark makes the comparisons with a neighbour ready, and reports whether there are any.
func (q *queue) unpark(neighbour sluice.EntryRef) bool {
	parked := q.parked[neighbour]
	if parked == nil {
		return false
	}
	for parked.Len() > 0 {
		q.set(parked.all[0], time.Time{})
	}
	return true
}

// advance makes due tasks ready.
func (q *queue) advance(now time.Time) {
	for q.later.Len() > 0 && !q.later.all[0].due.After(now) {
		q.set(q.later.all[0], time.Time{})
	}
}

// next returns when the next task becomes ready; zero if none waits.
func (q *queue) next() time.Time {
	if q.later.Len() == 0 {
		return time.Time{}
	}
	return q.later.all[0].due
}

// take removes the first ready task of the first type that has one (S3-84); nil: there is none.
func (q *queue) take(types []sluice.JobType) *task {
	for _, kind := range types {
		if ready := q.ready[kind]; ready != nil && ready.Len() > 0 {
			t := ready.all[0]
			q.drop(t)
			return t
		}
	}
	return nil
}

// tasks is a heap.
type tasks struct {
	less func(a, b *task) bool
	all  []*task
}

func (h *tasks) Len() int           { return len(h.all) }
func (h *tasks) Less(i, j int) bool { return h.less(h.all[i], h.all[j]) }
func (h *tasks) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].place, h.all[j].place = i, j
}

// Push is heap.Interface's.
func (h *tasks) Push(x any) {
	t := x.(*task) //nolint:forcetypeassert // nothing else is pushed
	t.place = len(h.all)
	h.all = append(h.all, t)
}

// Pop is heap.Interface's.
func (h *tasks) Pop() any {
	last := len(h.all) - 1
	t := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	t.in = nil
	return t
}
