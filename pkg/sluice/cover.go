package sluice

import (
	"math/bits"
	"strings"
)

// coverLimit bounds the states that Covers looks at, and so its time: to less than a millisecond.
// Patterns that people write need some tens of states.
const coverLimit = 1 << 12

// Covers reports whether p matches every path that q matches, of whatever length. It is never
// true wrongly; it is wrongly false only of patterns made to need more than coverLimit states,
// of strings that are no patterns, and where paths that are too long make the difference.
//
// It looks for a path of q that p does not match. Where q has a wildcard, a segment that
// stands nowhere in p is as good as any: what lets that one through lets everything through.
// So the states are where q is, and the set of all the places where p may be.
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

// Overlaps reports whether a path, of whatever length, is matched by both p and q.
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

// read is what has been read of a path, as far as it matters.
type read uint8

const (
	nothing read = iota
	empty        // one empty segment, which alone is no path
	some
)

func (r read) path() bool { return r == some }

func (r read) then(literal string) read {
	if r == nothing && literal == "" {
		return empty
	}
	return some
}

// reservedFirst reports whether the segment makes a path whose first it is one of the server's.
func reservedFirst(segment string) bool { return Path("/" + segment).Reserved() }

// automaton is a pattern as sets of places: bit i stands for the place before segment i, and
// the one after the last is where a path has to end.
type automaton struct {
	segs      []string
	one, deep uint64 // the places before "*" and before "**"
}

// newAutomaton returns the automaton of a pattern. Of what is none, or is too long to be looked at, it is the zero one, which
// matches no path.
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

// wild returns the places after a segment that stands nowhere in the pattern.
func (a automaton) wild(set uint64) uint64 { return a.closed(set&a.deep | set&a.one<<1) }

// literal returns the places after the segment.
func (a automaton) literal(set uint64, segment string) uint64 {
	next := set&a.deep | set&a.one<<1
	for i, seg := range a.segs {
		if seg == segment && set>>i&1 == 1 {
			next |= 2 << i
		}
	}
	return a.closed(next)
}

// closed adds the places behind each "**", and leaves out those before the last: what could
// still match from there matches from it, too.
func (a automaton) closed(set uint64) uint64 {
	for more := set & a.deep << 1 &^ set; more != 0; more = set & a.deep << 1 &^ set {
		set |= more
	}
	if last := bits.Len64(set & a.deep); last > 0 {
		set = set >> (last - 1) << (last - 1)
	}
	return set
}

// place is where a search is in the pattern that is to be covered.
type place struct {
	at   int
	read read
}

// state is a place, and where the covering pattern may be after the same segments.
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

// add notes a state, unless one was seen at the same place from which the covering pattern
// could go nowhere else: whatever escapes from here escaped there.
func (s *search) add(at place, set uint64) {
	for _, fewer := range s.seen[at] {
		if fewer&^set == 0 {
			return
		}
	}
	s.seen[at] = append(s.seen[at], set)
	s.todo = append(s.todo, state{at, set})
}

// escapes reports whether the segments that led here are a path that is not covered.
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
	case own && s.wildGlob: // no path of the pattern
	case own && s.wildCover:
		s.add(next, 0)
	default:
		s.add(next, s.cover.literal(st.set, seg))
	}
}

// pair is where two patterns are after the same segments.
type pair struct {
	a, b int
	read read
}

type overlap struct {
	a, b []string
	wild bool // a wildcard is the first segment of one of them
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

// step reads a segment that both let through, if there is one.
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
	case wildA && wildB: // any segment will do
	case !wildB && a != b, o.wild && at.read == nothing && reservedFirst(a):
		return
	default:
		next.read = at.read.then(a)
	}
	o.add(next)
}
