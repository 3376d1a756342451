package delivery

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A subscription with a batch policy is one lane. Its head is sent together with the events behind
// it that could also be sent alone. An event that cannot be sent, or whose filter is not evaluated
// yet, ends the batch before it and becomes a head later. The sender decides how many events fit
// into a request. A batch that failed is sent again unchanged.

// batchBytes bounds the size of a batch, in bytes. It also bounds the attempt's record, which names
// the events.
const batchBytes = 512 << 10

// weightOf returns approximately how many bytes an event adds to a batch.
func weightOf(ev *sluice.Event) int {
	const rest = 256 // names and braces
	return len(ev.Data) + len(ev.ID) + len(ev.Path) + len(ev.Type) + rest
}

// room is the space that is left in a batch.
type room struct{ events, bytes int }

func roomBehind(head *sluice.Event, most int) room {
	return room{most - 1, batchBytes - weightOf(head)}
}

// take reserves room for one more event, and reports whether the event fits.
func (r *room) take(ev *sluice.Event) bool {
	r.events--
	r.bytes -= weightOf(ev)
	return r.events >= 0 && r.bytes >= 0
}

// behind returns the deliveries that can be sent together with the head of a live lane.
func (b *laneTable) behind(l *lane) []*model.Delivery {
	if b.batch.Max < 2 || len(l.queue) < 2 || l.queue[0].Err != nil {
		return nil
	}
	left, n := roomBehind(&l.queue[0].Event, b.batch.Max), 1
	for n < len(l.queue) && l.queue[n].Err == nil && !b.doubtsAbout(l.queue[n]) && left.take(&l.queue[n].Event) {
		n++
	}
	return slices.Clone(l.queue[1:n])
}

// gathers reports whether a live lane waits for more events, and until when. The wait begins when
// its head was stored.
func (b *laneTable) gathers(l *lane) (until time.Time, ok bool) {
	head := l.queue[0]
	if b.batch.Wait == 0 || len(l.queue) >= b.batch.Max || head.Err != nil {
		return until, false
	}
	return head.Event.Stored.Add(b.batch.Wait.Std()), true
}

// file makes a live lane ready, or makes it wait for more events.
func (b *laneTable) file(l *lane) {
	until, waits := b.gathers(l)
	b.unfile(l)
	if !waits {
		b.makeReady(l)
		return
	}
	l.until = until
	heap.Push(&b.gathering, l)
}

// unfile ends a lane's wait for more events.
func (b *laneTable) unfile(l *lane) {
	if l.place > 0 {
		heap.Remove(&b.gathering, l.place-1)
	}
}

// ripen makes the lanes ready that have waited long enough. It lets none wait longer than the
// policy's wait from now, because the clock of the log may be ahead.
func (b *laneTable) ripen(now time.Time) {
	latest := now.Add(b.batch.Wait.Std())
	for len(b.gathering) > 0 {
		l := b.gathering[0]
		if l.until.After(latest) {
			l.until = latest
		}
		if l.until.After(now) {
			return
		}
		b.unfile(l)
		b.makeReady(l)
	}
}

// gatherHeap orders the live lanes that wait for more events by the end of their wait.
type gatherHeap []*lane

func (h gatherHeap) Len() int           { return len(h) }
func (h gatherHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h gatherHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push is for container/heap.
func (h *gatherHeap) Push(x any) {
	if l, ok := x.(*lane); ok {
		*h = append(*h, l)
		l.place = len(*h)
	}
}

// Pop is for container/heap.
func (h *gatherHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.place = 0
	return l
}

// together returns the events to send with a live lane's head: those of behind, up to the first one
// that may be part of a loop.
func (j job) together(ctx context.Context, behind []*model.Delivery) []*sluice.Event {
	more := make([]*sluice.Event, 0, len(behind))
	for _, d := range behind {
		if cause, err := j.looped(ctx, &d.Event); cause != nil || err != nil {
			break
		}
		more = append(more, &d.Event)
	}
	return more
}

// readTogether returns the events to send with a parked lane's head: those behind it that were read
// and are wanted. It stops at an event that has to be decided as a head, and at the end of a batch
// that is being repeated.
func (j job) readTogether(ctx context.Context, p *park) (more []*sluice.Event) {
	last := p.upTo
	if p.Attempts > 0 && p.BatchTo > 0 {
		last = min(last, p.BatchTo)
	}
	left := roomBehind(&p.ahead[0].Event, j.sub.Policy.Batch.Max)
	for i := range p.ahead[1:] {
		ev := &p.ahead[1+i]
		if ev.Seq > last || left.events < 1 {
			break
		}
		wanted, alone := j.joins(ctx, ev)
		if alone || wanted && !left.take(&ev.Event) {
			break
		}
		if wanted {
			more = append(more, &ev.Event)
		}
	}
	return more
}

// joins reports whether an event that was read back is wanted. alone means that it has to be
// decided as the head of its lane.
func (j job) joins(ctx context.Context, read *model.ReadEvent) (wanted, alone bool) {
	ev := &read.Event
	if j.r.past.progressOf(ev).Settled || !j.r.scope.takes(j.sub, ev) {
		return false, false
	}
	if read.Err != nil {
		return false, true
	}
	ok, known, err := j.r.ports.Filters.Match(j.match, ev)
	if !known || err != nil {
		return false, true
	}
	if !ok {
		return false, false
	}
	cause, err := j.looped(ctx, ev)
	return true, cause != nil || err != nil || j.r.ports.allowed(ev) != nil
}

// sentOf returns those of the events behind the head that an attempt has sent.
func sentOf(a *sluice.Attempt, more []*sluice.Event) []*sluice.Event {
	return more[:max(0, len(a.Batch)-1)]
}
