package delivery

import (
	"slices"

	"github.com/sluice-io/sluice/internal/model"
)

// doubt enters a delivery whose filter verdict is pending. Its lane waits when the delivery becomes
// the head. Like arrive, doubt reports whether to acknowledge the delivery at once. entered is
// false in that case, and if the delivery is queued already.
func (b *laneTable) doubt(key string, d *model.Delivery) (entered, ack bool) {
	seq := d.Event.Seq
	if _, held := b.held[seq]; held {
		return false, false
	}
	b.doubts[seq] = nil // before arrive, which checks for a doubt
	if b.arrive(key, d) {
		delete(b.doubts, seq)
		return false, true
	}
	b.doubts[seq] = b.lanes[key]
	return true, false
}

func (b *laneTable) doubtsAbout(d *model.Delivery) bool {
	_, doubted := b.doubts[d.Event.Seq]
	return doubted
}

// doubted returns the delivery with a sequence if its verdict is pending, otherwise nil.
func (b *laneTable) doubted(seq uint64) *model.Delivery {
	l := b.doubts[seq]
	if l == nil {
		return nil
	}
	return l.queue[slices.IndexFunc(l.queue, func(d *model.Delivery) bool { return d.Event.Seq == seq })]
}

// decided ends the doubt about a delivery. A delivery that is not wanted leaves its lane.
func (b *laneTable) decided(d *model.Delivery, wanted bool) { //nolint:revive // wanted is what was decided
	seq := d.Event.Seq
	l := b.doubts[seq]
	delete(b.doubts, seq)
	if !wanted {
		l.queue = slices.DeleteFunc(l.queue, func(other *model.Delivery) bool { return other == d })
		delete(b.held, seq)
	}
	b.enqueue(l)
}

// undecided returns the deliveries with a pending verdict, in log order.
func (b *laneTable) undecided() (all []*model.Delivery) {
	for seq := range b.doubts {
		all = append(all, b.doubted(seq))
	}
	slices.SortFunc(all, func(a, c *model.Delivery) int {
		if a.Event.Seq < c.Event.Seq {
			return -1
		}
		return 1
	})
	return all
}

// suspect makes a parked lane wait for the filter's verdict on its head.
func (b *laneTable) suspect(l *lane, p park) {
	l.doubtful = true
	b.resumed(l, p)
}

// ruled applies the filter's verdict on a parked lane's head.
func (b *laneTable) ruled(one *verdict) {
	l := one.lane
	if b.lanes[l.key] != l || !l.doubtful {
		return
	}
	l.doubtful, l.park.verdict = false, one
	b.enqueue(l)
}

// reconsider makes the parked lanes that wait for a verdict ask the filter again.
func (b *laneTable) reconsider() {
	for _, l := range b.lanes {
		if l.doubtful {
			l.doubtful = false
			b.enqueue(l)
		}
	}
}
