package delivery

import (
	"container/heap"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// lane holds the ordered deliveries of one key. Only its head is being processed.
type lane struct {
	key    string
	queue  []*model.Delivery // held and unacknowledged, ascending
	busy   bool              // a worker is processing it
	queued bool              // it is in one of the lists ready, chores or acts
	park   *park             // nil: live

	until time.Time // how long its head waits for more events of a batch
	place int       // in the heap gathering, from 1; 0: not in it

	hogging time.Time // since when it monopolizes the window; zero: it does not

	acts []*act // operators' decisions on its head, in order

	doubtful bool // the filter's verdict on its parked head is pending

	asks   bool         // its present task makes a request
	epoch  uint64       // the breaker's epoch when the task started
	spared breaker.Mark // its last failure that was not counted
}

type taskKind int

const (
	taskSend    taskKind = iota // send the head for the first time
	taskSpill                   // park a lane without an attempt: it monopolizes the window, or waits until its path is quiet
	taskResume                  // send the next event of a parked lane
	taskUnpark                  // delete the record
	taskRelease                 // make a held lane try its head again
	taskDiscard                 // discard the head of a held lane
)

// task is work on one lane. The lane is busy until the result is entered.
type task struct {
	kind taskKind
	lane *lane
	head *model.Delivery   // taskSend, taskSpill
	more []*model.Delivery // taskSend: deliveries to send with the head
	park park              // all others: a copy

	careful bool // store the record immediately, because the lane's next turn may be far in the future

	spare time.Duration // if not 0, the task is a probe: its failure is not counted, and the next attempt follows after about this time

	sub   *sluice.Subscription // set by the runner
	match *filter.Matcher
}

// laneTable is the state of a subscription's lanes. It decides the next task. It does no I/O, reads
// no clock, and has one user.
type laneTable struct {
	window   int
	patience time.Duration // how long a lane may monopolize the window; 0: forever
	batch    sluice.Batch
	debounce sluice.Debounce

	lanes  map[string]*lane
	ready  []*lane
	chores []*lane // lanes that were read back to the end, whose records have to be deleted
	due    dueHeap

	gathering gatherHeap // live lanes that wait for more events

	held   map[uint64]struct{} // sequences of all queued deliveries
	busy   int
	parked int

	quiet int // parked lanes that wait for their path to be quiet

	doubts map[uint64]*lane // deliveries of live lanes with a pending filter verdict

	acts      []*lane // held lanes with an operator's decision
	heldLanes int     // number of parked lanes that are held
}

func newLaneTable(window int) *laneTable {
	return &laneTable{window: window, lanes: map[string]*lane{}, held: map[uint64]struct{}{}, doubts: map[uint64]*lane{}}
}

// load enters a lane with a stored record. Events up to seen may have been acknowledged because the
// record existed, and so have to be read back.
func (b *laneTable) load(e model.ParkedEntry, seen uint64, now time.Time) {
	upTo := seen
	if e.Attempts > 0 || e.Held != "" {
		upTo = max(seen, e.FromSeq)
	}
	l := &lane{key: e.Lane, park: &park{ParkedEntry: e, upTo: upTo, savedAt: now, index: -1}}
	b.lanes[e.Lane] = l
	b.parked++
	b.count(e.Held, 1)
	b.deferred(l.park, e.NextAt.Add(-b.debounce.Quiet.Std()))
	b.enqueue(l)
}

// arrive enters a delivery. It reports whether to acknowledge the delivery at once, because the
// lane's record covers it. It ignores a delivery that is queued already.
func (b *laneTable) arrive(key string, d *model.Delivery) (ack bool) {
	seq := d.Event.Seq
	if _, ok := b.held[seq]; ok {
		return false
	}
	l := b.lanes[key]
	if l == nil {
		l = &lane{key: key}
		b.lanes[key] = l
	}
	if l.park != nil && (!l.park.leaving || seq < l.park.FromSeq) {
		if seq >= l.park.FromSeq {
			l.park.upTo = max(l.park.upTo, seq)
			if d.Err == nil {
				l.park.latest = later(l.park.latest, d.Event.Stored)
			}
		}
		return true
	}
	l.queue = append(l.queue, d)
	b.held[seq] = struct{}{}
	b.enqueue(l)
	return false
}

// canSend reports whether next returns a task.
func (b *laneTable) canSend(now time.Time, may breaker.Permit) bool {
	chore := b.hasChore() // first, because a lane that goes on may be due
	for may != breaker.None && len(b.due) > 0 && !b.due[0].park.NextAt.After(now) {
		l := b.due[0]
		if b.defers(l.park, now) {
			heap.Fix(&b.due, 0)
			continue
		}
		heap.Remove(&b.due, 0)
		b.makeReady(l)
	}
	if may != breaker.None {
		b.ripen(now)
	}
	return b.busy < b.window && (len(b.acts) > 0 || chore || may != breaker.None && len(b.ready) > 0)
}

// next returns a task, unless the window is full or nothing is due at now. A task that makes a
// request needs a permit. Parking a lane that monopolizes the window needs breaker.All, so that it
// happens only while lanes can proceed.
func (b *laneTable) next(now time.Time, may breaker.Permit) (task, bool) {
	if !b.canSend(now, may) {
		return task{}, false
	}
	if len(b.acts) > 0 {
		return b.nextAct(), true
	}
	if len(b.chores) > 0 {
		l := b.chore()
		l.park.leaving = true
		return task{kind: taskUnpark, lane: l, park: *l.park}, true
	}
	l := b.take(may)
	switch {
	case l.park != nil:
		return task{kind: taskResume, lane: l, park: *l.park, careful: b.parked > b.window}, true
	case b.defersNew(l) || may == breaker.All && b.monopolizes(l, now):
		return task{kind: taskSpill, lane: l, head: l.queue[0]}, true
	}
	return task{kind: taskSend, lane: l, head: l.queue[0], more: b.behind(l)}, true
}

// hasChore reports whether there is a lane whose record is to be deleted. It first lets those go on
// for which more events have arrived.
func (b *laneTable) hasChore() bool {
	for len(b.chores) > 0 {
		if b.chores[0].park.ended() {
			return true
		}
		l := b.firstChore() // more events of the lane have arrived
		l.queued = false
		b.enqueue(l)
	}
	return false
}

// chore takes the first lane whose record has to be deleted. There must be one.
func (b *laneTable) chore() *lane {
	l := b.firstChore()
	l.queued = false
	b.engage(l)
	return l
}

func (b *laneTable) firstChore() *lane {
	l := b.chores[0]
	b.chores[0] = nil
	b.chores = b.chores[1:]
	return l
}

// take takes the lane that has been ready for longest. For a probe it prefers live lanes, whose
// events are younger.
func (b *laneTable) take(may breaker.Permit) *lane {
	i := 0
	if may == breaker.Probe {
		i = max(0, slices.IndexFunc(b.ready, func(l *lane) bool { return l.park == nil }))
	}
	l := b.ready[i]
	if i == 0 {
		b.ready[0] = nil
		b.ready = b.ready[1:]
	} else {
		b.ready = slices.Delete(b.ready, i, i+1)
	}
	l.queued = false
	b.engage(l)
	return l
}

func (b *laneTable) engage(l *lane) {
	l.busy = true
	b.busy++
}

// waits reports whether something could be sent now if breaker and rate permitted it.
func (b *laneTable) waits(now time.Time) bool {
	return b.busy < b.window && (len(b.ready) > 0 || len(b.due) > 0 && !b.due[0].park.NextAt.After(now))
}

// monopolizes reports whether a lane has blocked others for too long: the window is full, most of
// the queued deliveries are this lane's, and most of the window's attempts are idle.
func (b *laneTable) monopolizes(l *lane, now time.Time) bool {
	if b.patience == 0 || len(b.held) < b.window || 2*len(l.queue) <= b.window || 2*b.busy > b.window {
		l.hogging = time.Time{}
		return false
	}
	if l.hogging.IsZero() {
		l.hogging = now
	}
	return now.Sub(l.hogging) >= b.patience
}

// wake returns when the next parked lane is due, or the next live lane has waited long enough for
// more events; zero if none waits.
func (b *laneTable) wake() (at time.Time) {
	if len(b.due) > 0 {
		at = b.due[0].park.NextAt
	}
	if len(b.gathering) > 0 && (at.IsZero() || b.gathering[0].until.Before(at)) {
		at = b.gathering[0].until
	}
	return at
}

// settled removes the head of a live lane and the deliveries that were sent with it, and returns
// them for acknowledgement.
func (b *laneTable) settled(l *lane, more int) []*model.Delivery {
	heads := slices.Clone(l.queue[:1+more])
	clear(l.queue[:1+more])
	l.queue = l.queue[1+more:]
	for _, d := range heads {
		delete(b.held, d.Event.Seq)
	}
	b.release(l)
	return heads
}

// stored records that a lane's record was stored. It returns the deliveries that the record now
// covers, for acknowledgement.
func (b *laneTable) stored(l *lane, e model.ParkedEntry, now time.Time) []*model.Delivery {
	if l.park == nil {
		l.park = &park{index: -1}
		b.parked++
	}
	p := l.park
	b.count(e.Held, 1)
	p.ParkedEntry, p.savedAt = e, now
	acks := l.queue
	l.queue = nil
	for _, d := range acks {
		p.upTo, p.latest = max(p.upTo, d.Event.Seq), later(p.latest, d.Event.Stored)
		delete(b.held, d.Event.Seq)
		delete(b.doubts, d.Event.Seq) // the filter is evaluated again when the event is read back
	}
	b.deferred(p, e.NextAt.Add(-b.debounce.Quiet.Std()))
	b.release(l)
	return acks
}

// unblock makes the head of a live lane wait for another attempt; nothing was sent.
func (b *laneTable) unblock(l *lane) { b.release(l) }

// resumed applies a parked lane's new position.
func (b *laneTable) resumed(l *lane, p park) {
	b.count(l.park.Held, -1)
	b.count(p.Held, 1)
	l.park.ParkedEntry, l.park.ahead, l.park.charged, l.park.savedAt, l.park.anew = p.ParkedEntry, p.ahead, p.charged, p.savedAt, p.anew
	l.park.verdict, l.park.skippedFrom = p.verdict, p.skippedFrom
	b.undefer(l.park)
	b.deferred(l.park, l.park.latest)
	b.release(l)
}

// unparked records that a lane's record was deleted.
func (b *laneTable) unparked(l *lane) {
	l.park = nil
	b.parked--
	b.release(l)
}

func (b *laneTable) release(l *lane) {
	l.busy = false
	b.busy--
	b.enqueue(l)
}

// enqueue puts a lane into the list or heap for its state, or removes it if it is finished.
func (b *laneTable) enqueue(l *lane) {
	switch {
	case l.busy || l.queued || l.doubtful:
	case l.park != nil && l.park.Held != "":
		b.enqueueHeld(l)
	case l.park != nil && l.park.ended() && l.park.index < 0:
		l.queued = true
		b.chores = append(b.chores, l)
	case l.park != nil:
		if l.park.index < 0 {
			heap.Push(&b.due, l)
		}
	case len(l.queue) == 0:
		b.unfile(l)
		delete(b.lanes, l.key)
	case b.doubtsAbout(l.queue[0]): // it waits for the filter
		b.unfile(l)
	default:
		b.file(l)
	}
}

func (b *laneTable) makeReady(l *lane) {
	l.queued = true
	b.ready = append(b.ready, l)
}

// empty reports whether there is no lane and no task.
func (b *laneTable) empty() bool { return len(b.lanes) == 0 && b.busy == 0 }

// oldest returns when the oldest held event was stored or the oldest parked lane first failed, the
// earlier of the two; zero if there is neither.
func (b *laneTable) oldest() (oldest time.Time) {
	for _, l := range b.lanes {
		var since time.Time
		switch {
		case l.park != nil:
			since = l.park.Since()
		case len(l.queue) > 0:
			since = l.queue[0].Event.Stored
		}
		if !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	return oldest
}

// each calls f for every held delivery.
func (b *laneTable) each(f func(*model.Delivery)) {
	for _, l := range b.lanes {
		for _, d := range l.queue {
			f(d)
		}
	}
}

// dueHeap orders parked lanes by due time.
type dueHeap []*lane

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].park.NextAt.Before(h[j].park.NextAt) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].park.index, h[j].park.index = i, j
}

// Push is for container/heap.
func (h *dueHeap) Push(x any) {
	if l, ok := x.(*lane); ok {
		l.park.index = len(*h)
		*h = append(*h, l)
	}
}

// Pop is for container/heap.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.park.index = -1
	return l
}
