package fanout

import (
	"cmp"
	"slices"
	"time"
)

// queue holds the entries of a member that were routed and not acknowledged. The lock of the log
// guards it.
type queue struct {
	entries  []*entry // ascending; there may be acknowledged ones in between
	unhanded int      // how many entries at the end were not handed out
	unacked  int
	acked    time.Time // the last acknowledgement
}

func (q *queue) add(e *entry) {
	q.entries = append(q.entries, e)
	q.unhanded++
	q.unacked++
}

// opened returns the first entry that was handed out and is not acknowledged; nil: there is none.
func (q *queue) opened() *entry {
	if len(q.entries) == q.unhanded {
		return nil
	}
	return q.entries[0]
}

// waiting returns the entries that were not handed out.
func (q *queue) waiting() []*entry { return q.entries[len(q.entries)-q.unhanded:] }

// take returns the next entry to hand out; nil if there is none, or the window has no room.
func (q *queue) take(window int) *entry {
	if q.unhanded == 0 || q.unacked-q.unhanded >= window {
		return nil
	}
	e := q.waiting()[0]
	q.unhanded--
	return e
}

// settle records an acknowledgement. It returns false for a repeated one.
func (q *queue) settle(e *entry) bool {
	if e.acked {
		return false
	}
	e.acked = true
	q.unacked--
	q.shed(e)
	for len(q.entries) > 0 && q.entries[0].acked {
		q.entries[0], q.entries = nil, q.entries[1:]
	}
	q.unhanded = min(q.unhanded, len(q.entries))
	if len(q.entries) == 0 {
		q.entries = nil
	}
	return true
}

// shed releases the data of an acknowledged entry, which may stay behind one that hangs, by a copy
// in its place: others may still read the event.
func (q *queue) shed(e *entry) {
	if len(e.Event.Data) < overhead {
		return
	}
	at, ok := slices.BinarySearchFunc(q.entries, e.Event.Seq, func(other *entry, seq uint64) int { return cmp.Compare(other.Event.Seq, seq) })
	if !ok || at == 0 || q.entries[at] != e { // a log that lost its end gives sequences again
		return
	}
	kept := *e
	kept.Event.Data = nil
	q.entries[at] = &kept
}

// cut removes the entries that were not handed out.
func (q *queue) cut() (removed []*entry) {
	removed = q.waiting()
	for _, e := range removed {
		if !e.acked {
			q.unacked--
		}
	}
	at := len(q.entries) - q.unhanded
	q.entries, q.unhanded = q.entries[:at:at], 0
	return removed
}

// rewind makes the next source get all unacknowledged entries again.
func (q *queue) rewind() {
	kept := q.entries[:0]
	for _, e := range q.entries {
		if !e.acked {
			e.Redelivered = true
			kept = append(kept, e)
		}
	}
	clear(q.entries[len(kept):])
	q.entries, q.unhanded = kept, len(kept)
}

// slow reports whether the first entry was routed longer ago than a limit.
func (q *queue) slow(now time.Time, limit time.Duration) bool {
	return now.Sub(q.entries[0].at) > limit
}

// hangs reports whether the queue is slow and nothing was acknowledged within the limit.
func (q *queue) hangs(now time.Time, limit time.Duration) bool {
	return q.slow(now, limit) && now.Sub(q.acked) > limit
}
