package mirror

import (
	"container/heap"
	"errors"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// queue is a heap of mirrors, ordered by the time at which they are due. The engine's lock guards
// it. set and drop cost O(log n).
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

// next updates the number of consecutive failures, and returns the time until the next sync.
func (j *job) next(err error, more bool, interval time.Duration) time.Duration { //nolint:revive // more is a result on its way
	if err != nil {
		j.failures++
		return min(max(backoff(interval, j.failures), asked(err)), maxBackoff)
	}
	j.failures = 0
	if more {
		return 0
	}
	return interval
}

// backoff returns the time until the next sync after consecutive failures. Each of them doubles the
// interval, up to an hour (S3-50). The cost is O(log(maxBackoff/interval)).
func backoff(interval time.Duration, failures int) time.Duration {
	for range failures {
		if interval >= maxBackoff {
			break
		}
		interval *= 2
	}
	return min(interval, maxBackoff)
}

// asked returns the delay that an overloaded source asks for, 0 if it names none.
func asked(err error) time.Duration {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return 0
	}
	seconds, _ := e.Details["retry_after"].(int)
	return time.Duration(seconds) * time.Second
}

// wait returns the time until the next sync: the interval with a jitter of a tenth, so that mirrors
// do not poll in step. For a mirror that gets bundles, it is the time until the mirror may be
// stale.
func (e *Engine) wait(m *Stored, at *Place) time.Duration {
	if m.Imported() {
		return m.untilStale(at, e.opts.Now())
	}
	interval := float64(m.PollInterval)
	return time.Duration(interval * (0.9 + 0.2*e.opts.Jitter()))
}
