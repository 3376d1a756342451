package feed

import "github.com/sluice-io/sluice/pkg/sluice"

// Lagged reports the frames that a slow reader missed, all of them between the frame before this
// one and the next (S2-88…90).
type Lagged struct {
	Missed int    `json:"missed_count"`         // frames that the reader would have been sent
	Oldest uint64 `json:"oldest_available_seq"` // of the next frame: all missed ones are lower
	Head   uint64 `json:"current_seq"`          // of the last event of the log

	// Unreadable is the range of the missed ones, if they are lost to damage and the reader is not
	// too slow. Then Missed is how many there are at most, on all paths.
	Unreadable *sluice.Gap `json:"unreadable,omitempty"`
}

// Frame is one message of a feed.
type Frame struct {
	Lagged *Lagged // missed frames; then it has no event
	Idle   bool    // nothing was sent for a while; Resume is the position

	Seq    uint64 // of the last event that it counts
	Resume uint64 // a reader that has got this resumes behind it; with Lagged 0: its position without it
	Count  int    // events that it counts

	item *Item
	from uint64 // the first of the events, while they are held back
}

// queue is the frames that were looked at for a blocked reader. New frames evict the oldest.
type queue struct {
	frames []Frame // a ring that grows up to most, and is freed when it is empty
	first  int
	count  int
	most   int
	weight int
	missed int
}

const (
	firstFrames = 16
	maxWeight   = 16 << 20 // maximum bytes of a queue, unless it is one event
)

func (q *queue) isFull() bool { return q.count == q.most || q.weight >= maxWeight }

// push adds a frame and evicts the oldest as needed.
func (q *queue) push(f Frame) {
	for q.isFull() {
		q.pop()
		q.missed++
	}
	if q.count == len(q.frames) {
		q.grow()
	}
	q.frames[(q.first+q.count)%len(q.frames)] = f
	q.count++
	q.weight += f.item.weight()
}

// take returns frames to send, in order: the count of missed ones first.
func (q *queue) take(into []Frame, head uint64) []Frame {
	frames := into[:0]
	if q.missed > 0 { // a push evicted them, so there is a frame
		frames = append(frames, Frame{Lagged: &Lagged{Missed: q.missed, Oldest: q.frames[q.first].Seq, Head: head}})
		q.missed = 0
	}
	for load := 0; len(frames) < cap(into) && q.count > 0 && load < atOnceWeight; {
		frame := q.pop()
		frames, load = append(frames, frame), load+frame.item.weight()
	}
	if q.count == 0 {
		q.frames, q.first = nil, 0
	}
	return frames
}

func (q *queue) pop() Frame {
	f := q.frames[q.first]
	q.frames[q.first] = Frame{}
	q.first = (q.first + 1) % len(q.frames)
	q.count--
	q.weight -= f.item.weight()
	return f
}

func (q *queue) grow() {
	larger := make([]Frame, min(max(firstFrames, 2*len(q.frames)), q.most))
	for i := range q.count {
		larger[i] = q.frames[(q.first+i)%len(q.frames)]
	}
	q.frames, q.first = larger, 0
}
