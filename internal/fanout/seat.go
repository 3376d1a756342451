package fanout

import "github.com/sluice-io/sluice/pkg/sluice"

// Seat is a subscription that has joined. If it joins again, it gets another seat, and the methods
// of the earlier seat do nothing.
type Seat struct {
	router *Router
	id     string
	number int
}

// Leave ends serving the subscription and stores its position, from which this or another replica
// can continue.
func (s *Seat) Leave() { s.router.part(s, left) }

// Drop ends serving the subscription because another replica takes over its shard. The shard's
// cursor stays where it is.
func (s *Seat) Drop() { s.router.part(s, dropped) }

// Forget ends serving the subscription because it was deleted or cancelled. The router stores
// nothing more about it.
func (s *Seat) Forget() { s.router.part(s, forgotten) }

// Join makes this replica serve a subscription from the next Commit on, or enters its new settings.
// The router calls wake, from any goroutine, when the subscription needs a runner and its source is
// not open.
func (r *Router) Join(sub *sluice.Subscription, wake func()) *Seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seats++
	if m := r.members[sub.ID]; m != nil {
		if seat, ok := m.rejoin(sub, wake, r.seats); ok {
			r.tell(change{waking, m})
			return seat
		}
		r.tell(change{forgotten, m})
	}
	l := r.logs[sub.Namespace]
	if l == nil {
		l = newShared(r, sub.Namespace)
		r.logs[sub.Namespace] = l
	}
	m := l.newMember(sub, wake)
	m.seat = r.seats
	r.members[sub.ID] = m
	r.tell(change{joined, m})
	return m.taken()
}

// rouse starts a runner for a member that joined again and needs one.
func (m *member) rouse() {
	m.log.mu.Lock()
	wake, wanted := m.wake, m.placed && m.source == nil && m.works()
	m.log.mu.Unlock()
	if wanted {
		wake()
	}
}

// hasLeft reports whether this replica does not serve the member any more.
func (m *member) hasLeft() bool {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return m.gone
}

// settings returns the member's subscription with its present settings.
func (m *member) settings() *sluice.Subscription {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return m.sub
}

// taken returns the member's present seat.
func (m *member) taken() *Seat { return &Seat{m.log.router, m.sub.ID, m.seat} }

// rejoin enters new settings of a member that continues. It returns false if the subscription is a
// later one of the same id.
func (m *member) rejoin(sub *sluice.Subscription, wake func(), seat int) (*Seat, bool) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if !m.sub.Began().Equal(sub.Began()) {
		return nil, false
	}
	m.sub, m.wake, m.seat = sub, wake, seat
	return m.taken(), true
}

func (r *Router) part(s *Seat, how changeKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[s.id]
	if m == nil || !m.log.part(m, s.number, how) {
		return
	}
	delete(r.members, s.id)
	r.tell(change{how, m})
}

// part prepares a member's end. It returns false if the member has another seat by now.
func (l *shared) part(m *member, seat int, how changeKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.seat != seat {
		return false
	}
	if how == dropped {
		l.freeze(m.shard)
	}
	return true
}

// freeze stops advancing the cursor of a shard.
func (l *shared) freeze(shard int) {
	if c := l.cursors[shard]; c != nil {
		c.frozen = true
	}
}
