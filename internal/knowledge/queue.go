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

// labels are those of the entries of a task; "" is that of the namespace. They decide who may see
// the task.
type labels struct{ entry, against string }

// queue holds the tasks that workers can claim now, by type and labels, those that they can claim
// later, by time, and comparisons with a missing neighbour, by this. The lock of the space guards
// it. set and drop cost O(log n), take costs O(labels) more.
type queue struct {
	labels func(*task) labels // at present
	ready  map[sluice.JobType]map[labels]*tasks
	later  *tasks
	parked map[sluice.EntryRef]*tasks
}

func newQueue(labelsOf func(*task) labels) queue {
	return queue{
		labels: labelsOf,
		ready:  map[sluice.JobType]map[labels]*tasks{sluice.JobEmbed: {}, sluice.JobEmbedMirrored: {}, sluice.JobCompare: {}},
		later:  &tasks{less: func(a, b *task) bool { return a.due.Before(b.due) }},
		parked: map[sluice.EntryRef]*tasks{},
	}
}

// among returns one of several heaps. It is among them until its last task leaves.
func among[K comparable](all map[K]*tasks, key K) *tasks {
	if all[key] == nil {
		all[key] = &tasks{less: func(a, b *task) bool { return a.order < b.order }, empty: func() { delete(all, key) }}
	}
	return all[key]
}

// set queues a task that workers can claim from due on; a zero time is now.
func (q *queue) set(t *task, due time.Time) {
	q.drop(t)
	t.due = due
	t.in = q.later
	if due.IsZero() {
		t.in = among(q.ready[t.kind], q.labels(t))
	}
	heap.Push(t.in, t)
}

func (q *queue) drop(t *task) {
	in := t.in
	if in == nil {
		return
	}
	heap.Remove(in, t.place)
	if in.Len() == 0 && in.empty != nil {
		in.empty()
	}
}

// park keeps a comparison until its neighbour comes back.
func (q *queue) park(t *task) {
	q.drop(t)
	t.in = among(q.parked, t.pair.Against)
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

// relabel moves the ready comparisons with an entry to its present label.
func (q *queue) relabel(entry sluice.EntryRef) {
	var moved []*task
	for of, ready := range q.ready[sluice.JobCompare] {
		for _, t := range ready.all {
			if t.pair.Against == entry && q.labels(t) != of {
				moved = append(moved, t)
			}
		}
	}
	for _, t := range moved {
		q.set(t, time.Time{})
	}
}

// take removes the first ready task, with labels that sees accepts, of the first type that has one
// (S3-84); nil: there is none.
func (q *queue) take(types []sluice.JobType, sees func(labels) bool) *task {
	for _, kind := range types {
		var first *task
		for of, ready := range q.ready[kind] {
			if head := ready.all[0]; (first == nil || ready.less(head, first)) && sees(of) {
				first = head
			}
		}
		if first != nil {
			q.drop(first)
			return first
		}
	}
	return nil
}

// tasks is a heap.
type tasks struct {
	less  func(a, b *task) bool
	empty func() // called after the last task has left; nil: nothing
	all   []*task
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
