package feed

// Lagged says what a reader missed that was too slow: so many frames, all of them between the frame before
// this one and the next (S2-88…90).
type Lagged struct {
	Missed int    `json:"missed_count"`         // frames that the reader would have been sent
	Oldest uint64 `json:"oldest_available_seq"` // of the next frame: all that was missed has a lower one
	Head   uint64 `json:"current_seq"`          // of the last event of the log
}

// Frame is one thing that a feed sends.
type Frame struct {
	Lagged *Lagged // what was missed; then it is no event
	Idle   bool    // there was nothing to send for a while; Resume says up to where

	Seq    uint64 // of the last event that it stands for
	Resume uint64 // behind which a reader goes on that has got this; 0 with Lagged: where it would without it
	Count  int    // events that it stands for

	item *Item
	from uint64 // the first of the events, while they are held back
}

// queue is what a feed has to send that was looked at while its reader took nothing. What goes in pushes out what is
// oldest.
type queue struct {
	frames []Frame // a ring that grows up to most, and goes when it is empty
	first  int
	count  int
	most   int
	weight int
	missed int
}

const (
	firstFrames = 16
	maxWeight   = 16 << 20 // bytes that a queue holds at most, unless it is one event
)

func (q *queue) isFull() bool { return q.count == q.most || q.weight >= maxWeight }

// push takes a frame. The oldest give way to it.
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

// take returns frames to send, in their order: what was missed first.
func (q *queue) take(into []Frame, head uint64) []Frame {
	frames := into[:0]
	if q.missed > 0 { // something pushed it out, so that there is something
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
