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

// missed describes the events of a member that were routed while it was not live: the first and the
// last one.
type missed struct {
	first Waits
	last  uint64
}

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
	missed missed   // events that were routed while it was not live
	waits  Waits    // an event behind those in the queue that it is known to want
	sought uint64   // seek has searched up to here
	doubt  uint64   // earlier processes may have attempted events up to here
	past   Past     // progress of deliveries of earlier processes behind after; nil: unknown, or handed to a source
	busy   bool     // there may be records of parked lanes, or of an endpoint in trouble
	lost   []span   // events that left the log before they were read

	queue   []*entry // routed and not acknowledged entries, ascending; there may be acknowledged ones in between
	unhand  int      // how many entries at the end of the queue were not handed out
	unacked int
	acked   time.Time // the last acknowledgement
	reading bool
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
	case len(m.queue) > 0:
		return m.queue[0].Event.Seq - 1
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
	if len(m.queue) == m.unhand {
		return Waits{}
	}
	return m.waitsFor(&m.queue[0].Event)
}

// next returns the first event behind those in progress that the member is known to want. For a
// member without a filter that is the first event that matches its pattern; otherwise the one that
// seek found.
func (m *member) next() Waits {
	switch plain := m.plain(); {
	case m.unhand > 0 && plain:
		return m.waitsFor(&m.queue[len(m.queue)-m.unhand].Event)
	case m.waits.Seq > m.after:
		return m.waits
	case plain && m.missed.first.Seq > m.after:
		return m.missed.first
	}
	return Waits{}
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
	m.queue = append(m.queue, e)
	m.unhand++
	m.unacked++
	m.after = ev.Seq
	return e
}

// hand hands entries to the source, as many as the window has room for.
func (m *member) hand() {
	if m.source == nil {
		return
	}
	for m.unhand > 0 && len(m.source.out) < cap(m.source.out) && m.unacked-m.unhand < m.window() {
		e := m.queue[len(m.queue)-m.unhand]
		m.unhand--
		if !e.acked {
			m.source.out <- &e.Delivery // does not block: out has room for a window
		}
	}
}

// settle records an acknowledgement. It returns false for a repeated one.
func (m *member) settle(e *entry) bool {
	if e.acked {
		return false
	}
	e.acked = true
	m.unacked--
	for len(m.queue) > 0 && m.queue[0].acked {
		m.queue[0], m.queue = nil, m.queue[1:]
	}
	m.unhand = min(m.unhand, len(m.queue))
	if len(m.queue) == 0 {
		m.queue = nil
	}
	return true
}

// miss records an event that was routed while the member was not live.
func (m *member) miss(ev *sluice.Event) {
	if m.missed.first.Seq == 0 {
		m.missed.first = m.waitsFor(ev)
	}
	m.missed.last = ev.Seq
}

// cut removes the entries that were not handed out. The member reads them again later.
func (m *member) cut() (removed []*entry) {
	at := len(m.queue) - m.unhand
	removed = m.queue[at:]
	if len(removed) > 0 {
		m.after = removed[0].Event.Seq - 1
	}
	for _, e := range removed {
		if !e.acked {
			m.unacked--
		}
	}
	m.queue, m.unhand = m.queue[:at:at], 0
	return removed
}

// rewind makes the next source get all unacknowledged entries again.
func (m *member) rewind() {
	kept := m.queue[:0]
	for _, e := range m.queue {
		if !e.acked {
			e.Redelivered = true
			kept = append(kept, e)
		}
	}
	clear(m.queue[len(kept):])
	m.queue, m.unhand = kept, len(kept)
}

// clean reports whether earlier processes have left no records that a runner has to read.
func (m *member) clean() bool {
	return !m.busy && m.floor(m.log.pos) >= m.doubt
}

// works reports whether the member needs a runner.
func (m *member) works() bool {
	return m.own || m.busy || len(m.queue) > 0 || len(m.lost) > 0
}
