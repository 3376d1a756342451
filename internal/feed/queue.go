package feed

import "sync"

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
}

// queue is what a feed has to send. What goes in pushes out what is oldest, if the owner does not wait for room.
type queue struct {
	mu     sync.Mutex
	frames []Frame // a ring that grows up to most
	first  int
	count  int
	most   int
	weight int
	missed int
	looked uint64        // up to where everything was looked at, and is sent or queued
	filled chan struct{} // has something when there is something to send
	room   chan struct{} // has something when some was sent
}

const (
	firstFrames = 16
	maxWeight   = 16 << 20 // bytes that a queue holds at most, unless it is one event
)

func newQueue(most int, looked uint64) *queue {
	return &queue{most: most, looked: looked, filled: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// full reports whether the next frame would push one out.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isFull()
}

func (q *queue) isFull() bool { return q.count == q.most || q.count > 0 && q.weight >= maxWeight }

// push takes a frame. The oldest give way to it.
func (q *queue) push(f Frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	signal(q.filled)
}

// reach says up to where everything was looked at.
func (q *queue) reach(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looked = max(q.looked, seq)
}

// take returns frames to send, in their order: what was missed first. If there are none, it returns up to where
// everything was looked at.
func (q *queue) take(into []Frame, head func() uint64) (frames []Frame, looked uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	frames = into[:0]
	if q.missed > 0 { // something pushed it out, so that there is something
		frames = append(frames, Frame{Lagged: &Lagged{Missed: q.missed, Oldest: q.frames[q.first].Seq, Head: head()}})
		q.missed = 0
	}
	for len(frames) < cap(into) && q.count > 0 {
		frames = append(frames, q.pop())
	}
	if q.count > 0 {
		signal(q.filled)
	}
	if len(frames) > 0 {
		signal(q.room)
	}
	return frames, q.looked
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

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake
	}
}
