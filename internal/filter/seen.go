package filter

import (
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Sizes of the cache: events, and expressions for each.
const (
	seenEvents   = 512
	seenVerdicts = 64
)

// seen caches the decoded data of recent events and the results of expensive expressions on them,
// because many subscriptions filter the same event. Equal expressions are evaluated once for an
// event. It is safe for concurrent use. An event that leaves the ring loses its results, and a
// later evaluation on it costs again. Errors are cached as results.
type seen struct {
	mu     sync.Mutex
	events map[eventKey]*seenEvent
	order  []eventKey // keys of the events, as a ring; the oldest is at place
	place  int
}

// eventKey identifies a stored event, even if its log was deleted and another one created under the
// same name.
type eventKey struct {
	namespace, id string
	seq           uint64
	stored        int64
}

type seenEvent struct {
	parsed Parsed

	mu       sync.Mutex
	verdicts map[verdictKey]*verdict
}

type verdictKey struct {
	text string
	most int
}

// verdict is the result of an expression. once guards the other fields.
type verdict struct {
	once sync.Once
	done chan struct{} // closed when it is known
	ok   bool
	err  error
}

func newSeen() *seen {
	return &seen{events: map[eventKey]*seenEvent{}, order: make([]eventKey, seenEvents)}
}

// of returns an event's cached results.
func (s *seen) of(e *sluice.Event) *seenEvent {
	if e.Seq == 0 { // the event is not stored: nothing to cache
		return &seenEvent{}
	}
	key := eventKey{e.Namespace, e.ID, e.Seq, e.Stored.UnixNano()}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.events[key]
	if known == nil {
		known = &seenEvent{}
		delete(s.events, s.order[s.place])
		s.events[key], s.order[s.place] = known, key
		s.place = (s.place + 1) % len(s.order)
	}
	return known
}

// judge returns the verdict of a filter with an expression on an event, and the cost to charge:
// that of the evaluation, 0 if an equal expression was evaluated before, and exhaustedCost on top
// if the cost limit was exceeded. A concurrent caller with an equal expression waits for the first
// one, and pays nothing for the evaluation.
func (s *seen) judge(m *Matcher, e *sluice.Event) (v Verdict, cost int) {
	known := s.of(e)
	if !m.rest(e, &known.parsed) {
		return Verdict{}, 0
	}
	found := known.enter(m.cel)
	found.once.Do(func() {
		cost = m.cel.reading(e, &known.parsed)
		var spent int
		found.ok, spent, found.err = m.cel.metered(&meter{left: m.cel.most, yields: true}, e, &known.parsed)
		cost += spent
		close(found.done)
	})
	if Exhausted(found.err) {
		cost += exhaustedCost
	}
	return Verdict{found.ok, found.err}, cost
}

// enter returns the cache entry for the verdict of an expression. Beyond seenVerdicts it returns an
// entry that is not cached.
func (s *seenEvent) enter(x *expression) *verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := verdictKey{x.text, x.most}
	v := s.verdicts[key]
	if v != nil {
		return v
	}
	v = &verdict{done: make(chan struct{})}
	if s.verdicts == nil {
		s.verdicts = map[verdictKey]*verdict{}
	}
	if len(s.verdicts) < seenVerdicts {
		s.verdicts[key] = v
	}
	return v
}

// lookUp returns the verdict of an expression, nil if it is unknown.
func (s *seenEvent) lookUp(x *expression) *verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.verdicts[verdictKey{x.text, x.most}]
	if v == nil {
		return nil
	}
	select {
	case <-v.done:
		return v
	default:
		return nil
	}
}

// knows reports whether an equal expression was evaluated already, within its limit.
func (s *seen) knows(m *Matcher, e *sluice.Event) bool {
	if m.cel == nil {
		return false
	}
	v := s.of(e).lookUp(m.cel)
	return v != nil && !Exhausted(v.err)
}

// reading returns the cost of decoding the data for the expression; 0 if it does not read the data,
// or the data is decoded already.
func (x *expression) reading(e *sluice.Event, p *Parsed) int {
	if !x.data || p.decoded() {
		return 0
	}
	return len(e.Data) / dataUnit
}
