package sluice

import (
	"math/bits"
	"strings"
)

// coverLimit limits the states that Covers examines, and thereby its time to less than a
// millisecond. Typical patterns need a few dozen states.
const coverLimit = 1 << 12

// Covers reports whether p matches every path that q matches, of any length. A true result is
// always correct. A false result can be wrong only for patterns that were built to need more than
// coverLimit states, for strings that are not patterns, and if q matches only overlong paths that p
// does not match.
//
// It searches for a path that q matches and p does not. For a wildcard in q, a segment that does
// not occur in p is the best choice, because a position in p that accepts it accepts any segment. A
// state is a position in q and the set of all positions that are possible in p.
func (p Pattern) Covers(q Pattern) bool {
	if !strings.HasPrefix(string(q), "/") {
		return false
	}
	cover := newAutomaton(p)
	s := search{
		cover: cover, wildCover: p.WildFirst(),
		glob: q.Segments(), wildGlob: q.WildFirst(),
		seen: map[place][]uint64{},
	}
	s.add(place{}, cover.closed(1))
	for looked := 0; len(s.todo) > 0; looked++ {
		next := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if looked == coverLimit || s.escapes(next) {
			return false
		}
		s.expand(next)
	}
	return true
}

// Overlaps reports whether p and q both match some path, of any length.
func (p Pattern) Overlaps(q Pattern) bool {
	if !strings.HasPrefix(string(p), "/") || !strings.HasPrefix(string(q), "/") {
		return false
	}
	o := overlap{a: p.Segments(), b: q.Segments(), wild: p.WildFirst() || q.WildFirst(), seen: map[pair]bool{}}
	o.add(pair{})
	for len(o.todo) > 0 {
		next := o.todo[len(o.todo)-1]
		o.todo = o.todo[:len(o.todo)-1]
		if next.a == len(o.a) && next.b == len(o.b) && next.read.path() {
			return true
		}
		o.expand(next)
	}
	return false
}

// read says what is relevant about the segments that were read so far.
type read uint8

const (
	nothing read = iota
	empty        // one empty segment, which alone is not a path
	some
)

func (r read) path() bool { return r == some }

func (r read) then(literal string) read {
	if r == nothing && literal == "" {
		return empty
	}
	return some
}

// reservedFirst reports whether a path with this first segment is reserved.
func reservedFirst(segment string) bool { return Path("/" + segment).Reserved() }

// automaton represents a pattern. Positions in the pattern are bits of a set: bit i is the position
// before segment i. The position after the last segment accepts.
type automaton struct {
	segs      []string
	one, deep uint64 // the positions before "*" and before "**"
}

// newAutomaton returns the automaton of a pattern. For an invalid or overlong pattern, it is the
// zero automaton, which matches no path.
func newAutomaton(p Pattern) automaton {
	if !strings.HasPrefix(string(p), "/") || strings.Count(string(p), "/") > MaxPathSegments {
		return automaton{}
	}
	a := automaton{segs: p.Segments()}
	for i, seg := range a.segs {
		switch seg {
		case "*":
			a.one |= 1 << i
		case "**":
			a.deep |= 1 << i
		}
	}
	return a
}

func (a automaton) accepts(set uint64) bool { return set>>len(a.segs)&1 == 1 }

// wild returns the positions after a segment that does not occur in the pattern.
func (a automaton) wild(set uint64) uint64 { return a.closed(set&a.deep | set&a.one<<1) }

// literal returns the positions after the segment.
func (a automaton) literal(set uint64, segment string) uint64 {
	next := set&a.deep | set&a.one<<1
	for i, seg := range a.segs {
		if seg == segment && set>>i&1 == 1 {
			next |= 2 << i
		}
	}
	return a.closed(next)
}

// closed adds the positions after each "**", and removes the positions before the last "**", which
// are redundant.
func (a automaton) closed(set uint64) uint64 {
	for more := set & a.deep << 1 &^ set; more != 0; more = set & a.deep << 1 &^ set {
		set |= more
	}
	if last := bits.Len64(set & a.deep); last > 0 {
		set = set >> (last - 1) << (last - 1)
	}
	return set
}

// place is a position in the pattern to be covered.
type place struct {
	at   int
	read read
}

// state is a place, and the possible positions in the covering pattern after the same segments.
type state struct {
	place
	set uint64
}

type search struct {
	cover               automaton
	glob                []string
	wildCover, wildGlob bool
	todo                []state
	seen                map[place][]uint64
}

// add queues a state, unless a state with the same place and a subset of the positions was seen:
// each path that is not covered from this state is not covered from that state either.
func (s *search) add(at place, set uint64) {
	for _, fewer := range s.seen[at] {
		if fewer&^set == 0 {
			return
		}
	}
	s.seen[at] = append(s.seen[at], set)
	s.todo = append(s.todo, state{at, set})
}

// escapes reports whether the segments that led to this state are a path that is not covered.
func (s *search) escapes(st state) bool {
	return st.at == len(s.glob) && st.read.path() && !s.cover.accepts(st.set)
}

func (s *search) expand(st state) {
	if st.at == len(s.glob) {
		return
	}
	switch seg := s.glob[st.at]; seg {
	case "**":
		s.add(place{st.at + 1, st.read}, st.set)
		s.add(place{st.at, some}, s.cover.wild(st.set))
	case "*":
		s.add(place{st.at + 1, some}, s.cover.wild(st.set))
	default:
		s.literal(st, seg)
	}
}

func (s *search) literal(st state, seg string) {
	next := place{st.at + 1, st.read.then(seg)}
	own := st.read == nothing && reservedFirst(seg)
	switch {
	case own && s.wildGlob: // not a path of the pattern
	case own && s.wildCover:
		s.add(next, 0)
	default:
		s.add(next, s.cover.literal(st.set, seg))
	}
}

// pair holds positions in two patterns after the same segments.
type pair struct {
	a, b int
	read read
}

type overlap struct {
	a, b []string
	wild bool // the first segment of one of them is a wildcard
	todo []pair
	seen map[pair]bool
}

func (o *overlap) add(next pair) {
	if !o.seen[next] {
		o.seen[next] = true
		o.todo = append(o.todo, next)
	}
}

func (o *overlap) expand(at pair) {
	if at.a < len(o.a) && o.a[at.a] == "**" {
		o.add(pair{at.a + 1, at.b, at.read})
	}
	if at.b < len(o.b) && o.b[at.b] == "**" {
		o.add(pair{at.a, at.b + 1, at.read})
	}
	if at.a < len(o.a) && at.b < len(o.b) {
		o.step(at, o.a[at.a], o.b[at.b])
	}
}

// step reads a segment that both patterns accept, if there is one.
func (o *overlap) step(at pair, a, b string) {
	next := pair{at.a + 1, at.b + 1, some}
	if a == "**" {
		next.a = at.a
	}
	if b == "**" {
		next.b = at.b
	}
	wildA, wildB := a == "*" || a == "**", b == "*" || b == "**"
	if wildA {
		a = b
	}
	switch {
	case wildA && wildB: // any segment matches
	case !wildB && a != b, o.wild && at.read == nothing && reservedFirst(a):
		return
	default:
		next.read = at.read.then(a)
	}
	o.add(next)
}
