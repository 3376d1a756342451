package feed

import "github.com/sluice-io/sluice/pkg/sluice"

// Lagged reports the frames that a slow reader missed, all of them between the previous frame and
// the next one (S2-88…90).
type Lagged struct {
	Missed int    `json:"missed_count"`         // frames that the reader would have been sent
	Oldest uint64 `json:"oldest_available_seq"` // the sequence of the next frame: all missed ones are lower
	Head   uint64 `json:"current_seq"`          // the sequence of the last event of the log

	// Unreadable is set if damage of the store lost events, rather than a slow reader: it is their
	// range. Then Missed is the maximum number of them, on all paths.
	Unreadable *sluice.Gap `json:"unreadable,omitempty"`
}

// Frame is one message of a feed.
type Frame struct {
	Lagged *Lagged // a report of missed frames; the frame has no event then
	Idle   bool    // a heartbeat; Resume is the position

	Seq    uint64 // sequence of the last event that the frame stands for
	Resume uint64 // a reader that received this frame resumes behind this sequence; 0, with Lagged: its position does not change
	Count  int    // number of events that the frame stands for

	item *Item
	from uint64 // sequence of the first event that it stands for, while it is held back
}

// queue holds the frames for a blocked reader. New frames evict the oldest.
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
	maxWeight   = 16 << 20 // bytes from which a queue is full
)

func (q *queue) isFull() bool { return q.count == q.most || q.weight >= maxWeight }

// push adds a frame, and evicts and counts the oldest ones as needed.
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

// take removes and returns the next frames to send, in order. If frames were evicted, the first one
// reports their number.
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
