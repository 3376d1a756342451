package mirror

import (
	"container/heap"
	"time"
)

// queue is a heap of mirrors by the time at which they are due.
type queue []*job

func (q *queue) set(j *job, due time.Time) {
	j.due = due
	if j.at < 0 {
		heap.Push(q, j)
		return
	}
	heap.Fix(q, j.at)
}

func (q *queue) drop(j *job) {
	if j.at >= 0 {
		heap.Remove(q, j.at)
	}
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(a, b int) bool { return q[a].due.Before(q[b].due) }
func (q queue) Swap(a, b int) {
	q[a], q[b] = q[b], q[a]
	q[a].at, q[b].at = a, b
}

// Push is heap.Interface's.
func (q *queue) Push(x any) {
	j := x.(*job) //nolint:forcetypeassert // nothing else is pushed
	j.at = len(*q)
	*q = append(*q, j)
}

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	last := len(*q) - 1
	j := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	j.at = -1
	return j
}
