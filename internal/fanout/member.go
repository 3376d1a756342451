package fanout

import (
	"reflect"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// entry is one event for one member. It is the receipt of its delivery.
type entry struct {
	model.Delivery

	member  *member
	content *content
	at      time.Time // when it was routed
	acked   bool
}

// content is the part of an event that the entries of all members share.
type content struct {
	weight  int // bytes
	charged int // number of entries of attached members that count it
}

// Ack records that the delivery is settled, or stored in the record of its lane.
func (e *entry) Ack() error {
	e.member.log.ack(e)
	return nil
}

// Hold does nothing, because a delivery is not repeated while its source is open.
func (e *entry) Hold() error { return nil }

var _ model.Receipt = (*entry)(nil)

// span is a range of sequences.
type span struct{ from, to uint64 }

// member is a subscription that this replica serves. The lock of its log guards it.
type member struct {
	log     *shared
	sub     *sluice.Subscription
	wake    func() // starts a runner
	shard   int
	filters []string // the subjects of its pattern

	seat  int           // the number of its present seat
	moved chan struct{} // closed when it is removed

	placed   bool // its position is known
	own      bool // it has consumers of its own
	gone     bool // this replica does not serve it any more
	attached bool // the shard's cursor accounts for it
	live     bool // it gets the events that are routed; otherwise it reads the log by itself

	moving moving // a pending change of its stored position
	stored Position

	after  uint64   // highest sequence that was queued or read past
	floors []uint64 // by filter: events up to here were settled by earlier processes
	unread unread
	doubt  uint64 // earlier processes may have attempted events up to here
	past   Past   // progress of deliveries of earlier processes behind after; nil: unknown, or handed to a source
	busy   bool   // there may be records of parked lanes, or of an endpoint in trouble
	lost   []span // events that left the log before they were read

	queue   queue
	reading bool    // it reads the log by itself now
	source  *Source // nil: no runner has it open
}

// moving is a pending change of a member's stored position.
type moving int

const (
	staying   moving = iota
	detaching        // to a position of its own
	joining          // to the shard's cursor
	leaving          // to a position of its own, and off this replica
)

// window returns how many unacknowledged deliveries a runner has at most.
func (m *member) window() int { return max(1, m.sub.Policy.MaxPending()) }

// most returns how many deliveries are queued at most. One more makes the member fall behind.
func (m *member) most() int { return 2 * m.window() }

// floor returns the sequence up to which all events of the member are settled or parked, given the
// position of the shared reader.
func (m *member) floor(pos uint64) uint64 {
	switch {
	case len(m.queue.entries) > 0:
		return m.queue.entries[0].Event.Seq - 1
	case m.live:
		return max(m.after, pos)
	}
	return m.after
}

// position returns the position to store for a member with a position of its own.
func (m *member) position(pos uint64) Position {
	return Position{Shared: true, Floors: m.floorsFrom(m.floor(pos)), Open: m.open(), Next: m.next()}
}

// open returns the first event that was handed out and is not acknowledged.
func (m *member) open() Waits {
	e := m.queue.opened()
	if e == nil {
		return Waits{}
	}
	return m.waitsFor(&e.Event)
}

// next returns the first event behind those in progress that the member is known to want. For a
// member without a filter that is the first event that matches its pattern; otherwise the one that
// seek found.
func (m *member) next() Waits {
	plain := m.plain()
	if waiting := m.queue.waiting(); plain && len(waiting) > 0 {
		return m.waitsFor(&waiting[0].Event)
	}
	return m.unread.next(m.after, plain)
}

// plain reports whether the member wants every event that matches its pattern.
func (m *member) plain() bool { return reflect.ValueOf(m.sub.Filter).IsZero() }

func (m *member) waitsFor(ev *sluice.Event) Waits { return Waits{ev.Seq, m.filterOf(ev.Path)} }

// filterOf returns the index of the filter that matches a path of the pattern. A pattern that ends
// in "/**" has a second filter, for the path before that. A message that is not an event has no
// path, and counts as matched by the first filter.
func (m *member) filterOf(path sluice.Path) int {
	if len(m.filters) == 2 && path != "" && len(path.Segments()) == len(m.sub.Pattern.Segments())-1 {
		return 1
	}
	return 0
}

// floorsFrom returns the floors of all filters, each raised to a sequence if it is lower.
func (m *member) floorsFrom(seq uint64) []uint64 {
	floors := make([]uint64, len(m.filters))
	for i := range floors {
		floors[i] = seq
		if i < len(m.floors) {
			floors[i] = max(seq, m.floors[i])
		}
	}
	return floors
}

// wants reports whether the member gets a message.
func (m *member) wants(ev *sluice.Event, err error) bool {
	if ev.Seq <= m.after || err == nil && !m.sub.Pattern.Match(ev.Path) {
		return false
	}
	return ev.Seq > m.floors[m.filterOf(ev.Path)]
}

// wantsAll reports whether the member gets every event of the namespace.
func (m *member) wantsAll() bool {
	return m.sub.Pattern == "/**" && m.sub.From.Kind != sluice.StartLastPerPath && m.plain()
}

// add queues an event.
func (m *member) add(ev *sluice.Event, err error, c *content, now time.Time) *entry {
	e := &entry{member: m, content: c, at: now, Delivery: model.Delivery{Event: *ev, Err: err}}
	e.Receipt = e
	m.queue.add(e)
	m.after = ev.Seq
	return e
}

// hand hands entries to the source, as many as the window has room for.
func (m *member) hand() {
	if m.source == nil {
		return
	}
	for len(m.source.out) < cap(m.source.out) {
		e := m.queue.take(m.window())
		if e == nil {
			return
		}
		if !e.acked {
			m.source.out <- &e.Delivery // does not block: out has room for a window
		}
	}
}

// cut removes the entries that were not handed out. The member reads them again later.
func (m *member) cut() (removed []*entry) {
	removed = m.queue.cut()
	if len(removed) > 0 {
		m.after = removed[0].Event.Seq - 1
	}
	return removed
}

// clean reports whether earlier processes have left no records that a runner has to read.
func (m *member) clean() bool {
	return !m.busy && m.floor(m.log.pos) >= m.doubt
}

// works reports whether the member needs a runner.
func (m *member) works() bool {
	return m.own || m.busy || len(m.queue.entries) > 0 || len(m.lost) > 0
}
