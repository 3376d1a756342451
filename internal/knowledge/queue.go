package knowledge

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"strings"
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
	nth   int // among the comparisons with its neighbour
}

// mostLabels limits the heaps of a type. Publishers choose the labels, so there may be as many as
// tasks.
const mostLabels = 256

// labels are those of the entries of a task, each in its canonical form. They decide who may see the
// task.
type labels struct{ entry, against string }

// Values of labels.entry that are no label.
const (
	unreadable = "?" // stands for all malformed labels: only root is cleared for them
	further    = "*" // of the heap for the tasks with all labels beyond mostLabels
)

// canonical returns the form of a label that all labels with equal decisions share; "" is the label
// of the namespace.
func canonical(label string) string {
	name, list, more := strings.Cut(label, "/")
	if _, err := sluice.ParseLevel(name); err != nil {
		if label == "" {
			return ""
		}
		return unreadable
	}
	if !more {
		return name
	}
	all := strings.Split(list, ",")
	slices.Sort(all)
	l := sluice.Label{Compartments: slices.Compact(all)}
	if l.Check() != nil { // no clearance has them
		return unreadable
	}
	return name + "/" + strings.Join(l.Compartments, ",")
}

// queue holds the tasks that workers can claim now, by type and labels, those that they can claim
// later, by time, and comparisons with a missing neighbour, by this. against has all comparisons of
// these. The lock of the space guards it. set and drop cost O(log n), take costs O(mostLabels) more.
type queue struct {
	labels  func(*task) labels // at present
	ready   map[sluice.JobType]map[labels]*tasks
	later   *tasks
	parked  map[sluice.EntryRef]*tasks
	against map[sluice.EntryRef][]*task // by neighbour
}

func newQueue(labelsOf func(*task) labels) queue {
	return queue{
		labels: labelsOf,
		ready:  map[sluice.JobType]map[labels]*tasks{sluice.JobEmbed: {}, sluice.JobEmbedMirrored: {}, sluice.JobCompare: {}},
		later:  &tasks{less: func(a, b *task) bool { return a.due.Before(b.due) }},
		parked: map[sluice.EntryRef]*tasks{}, against: map[sluice.EntryRef][]*task{},
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
	in := q.later
	if due.IsZero() {
		in = q.readyFor(t)
	}
	q.push(t, in)
}

func (q *queue) push(t *task, in *tasks) {
	t.in = in
	heap.Push(in, t)
	if t.pair != nil {
		t.nth = len(q.against[t.pair.Against])
		q.against[t.pair.Against] = append(q.against[t.pair.Against], t)
	}
}

// readyFor returns the heap for a task that is ready. Labels without compartments are few, and always
// have heaps of their own.
func (q *queue) readyFor(t *task) *tasks {
	ready, of := q.ready[t.kind], q.labels(t)
	if ready[of] == nil && len(ready) >= mostLabels && strings.Contains(of.entry+of.against, "/") {
		of = labels{entry: further}
	}
	return among(ready, of)
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
	if t.pair == nil {
		return
	}
	all := q.against[t.pair.Against]
	last := len(all) - 1
	all[t.nth] = all[last]
	all[t.nth].nth = t.nth
	all[last] = nil
	q.against[t.pair.Against] = all[:last]
	if last == 0 {
		delete(q.against, t.pair.Against)
	}
}

// park keeps a comparison until its neighbour comes back.
func (q *queue) park(t *task) {
	q.drop(t)
	q.push(t, among(q.parked, t.pair.Against))
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

// relabel moves the ready comparisons with an entry to its present label, and reports whether there
// are any.
func (q *queue) relabel(entry sluice.EntryRef) (some bool) {
	for _, t := range slices.Clone(q.against[entry]) {
		if t.in != q.later && t.in != q.parked[entry] {
			q.set(t, time.Time{})
			some = true
		}
	}
	return some
}

// take removes the first ready task, with labels that sees accepts, of the first type that has one
// (S3-84); nil: none was found.
func (q *queue) take(types []sluice.JobType, sees func(labels) bool) *task {
	for _, kind := range types {
		var first *task
		for of, ready := range q.ready[kind] {
			if t := q.find(of, ready, sees); t != nil && (first == nil || ready.less(t, first)) {
				first = t
			}
		}
		if first != nil {
			q.drop(first)
			return first
		}
	}
	return nil
}

// find returns the first task of a heap, if sees accepts its labels; otherwise nil. In the heap of
// further labels it looks at mostLabels tasks besides, from a random one on, so that hidden ones keep
// no worker from the others for good.
func (q *queue) find(of labels, ready *tasks, sees func(labels) bool) (first *task) {
	if of.entry != further {
		if sees(of) {
			first = ready.all[0]
		}
		return first
	}
	if sees(q.labels(ready.all[0])) {
		return ready.all[0]
	}
	n := len(ready.all)
	from := rand.IntN(n) //nolint:gosec // no secret
	for i := range min(n, mostLabels) {
		t := ready.all[(from+i)%n]
		if (first == nil || ready.less(t, first)) && sees(q.labels(t)) {
			first = t
		}
	}
	return first
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
