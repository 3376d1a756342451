package streamsub

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Limits of a record. It is stored as one message, of 1 MiB at most, which has to hold at the same
// time: the streams of its configuration, the linked streams, links of others, the streams of a
// wake, and some 50 KiB for the rest. Names are counted in JSON form: a byte can take six.
const (
	mostText     = 160 << 10 // of the named streams, and again of those of a wake
	mostLinkText = 384 << 10 // of the links of other streams
	mostLinks    = 4000      // of other streams
	keepLinks    = 256       // kept although they could be forgotten
)

// weight returns how many bytes a stream's name and state take in a record.
func weight(path string) int {
	n := len(path) + len(`"":{"acked":9999999999999999},`)
	for _, r := range path {
		switch r {
		case '"', '\\':
			n++
		case '<', '>', '&':
			n += len(`\u003c`) - 1
		case '\u2028', '\u2029':
			n += len(`\u2028`) - utf8.RuneLen(r)
		}
	}
	return n
}

// within returns how many of the streams have names of no more than this many bytes together.
func within(all []Stream, bytes int) int {
	for i, s := range all {
		if bytes -= weight(s.Path); bytes < 0 {
			return i
		}
	}
	return len(all)
}

// room is the space for links of streams that are not named.
type room struct{ links, text int }

func (r *room) take(path string) bool {
	w := weight(path)
	if r.links < 1 || r.text < w {
		return false
	}
	r.links, r.text = r.links-1, r.text-w
	return true
}

// rest returns the room that links leave; negative values are missing space.
func rest(links map[string]Link) room {
	r := room{mostLinks, mostLinkText}
	for path, link := range links {
		if !link.Explicit {
			r.links, r.text = r.links-1, r.text-weight(path)
		}
	}
	return r
}

func (r *room) over() bool { return r.links < 0 || r.text < 0 }

// fold forgets links when a wake is over, if there are many.
func (s *Subscription) fold(v View) {
	if left := rest(s.Links); mostLinks-left.links > keepLinks {
		s.settle(v)
	}
}

// fit forgets links whenever a record has no room for them, even during a wake.
func (s *Subscription) fit(v View) {
	if left := rest(s.Links); left.over() {
		s.settle(v)
	}
}

// settle moves Floor behind finished streams, so that links can be forgotten.
func (s *Subscription) settle(v View) {
	pending := s.behind(v)
	if len(pending) <= mostLinks && within(pending, mostLinkText) == len(pending) {
		s.foldAll(pending, v.At)
		return
	}
	s.foldPart(pending)
	if left := rest(s.Links); left.over() {
		s.shed(pending, v.At)
	}
}

// behind is Pending, but a stream in the wake ends at its snapshot, which Floor must not overtake.
func (s *Subscription) behind(v View) []Stream {
	all := Pending(s, v)
	if s.Wake == nil {
		return all
	}
	for i, p := range all {
		if tail := s.Wake.Snapshot[p.Path]; tail > s.Floor || tail > 0 && s.linked(p.Path) {
			all[i].Tail = min(tail, p.Tail)
		}
	}
	slices.SortFunc(all, byTail)
	return all
}

func byTail(a, b Stream) int {
	return cmp.Or(cmp.Compare(a.Tail, b.Tail), cmp.Compare(a.Path, b.Path))
}

// foldAll gives every pending stream a link. All other links can be forgotten then.
func (s *Subscription) foldAll(pending []Stream, at uint64) {
	links := map[string]Link{}
	for path, link := range s.Links {
		if link.Explicit {
			links[path] = link
		}
	}
	for _, p := range pending {
		links[p.Path] = Link{Explicit: p.Explicit, Acked: p.Acked}
	}
	s.Links, s.Floor, s.Base = links, at, at
}

// foldPart forgets the links of streams that ended before every pending stream without a link. Base
// stays: if a forgotten stream gets a new message, it is read from Base on, in part again.
func (s *Subscription) foldPart(pending []Stream) {
	floor, _ := s.unlinked(pending, s.Links)
	if floor <= s.Floor {
		return
	}
	behind := map[string]bool{}
	for _, p := range pending {
		behind[p.Path] = true
	}
	for path, link := range s.Links {
		if !link.Explicit && !behind[path] && link.Acked <= floor {
			delete(s.Links, path)
		}
	}
	s.Floor = floor
}

// unlinked returns the limit of Floor: right before the first pending stream without one of the
// links. all says that there is no such stream.
func (s *Subscription) unlinked(pending []Stream, links map[string]Link) (floor uint64, all bool) {
	for _, p := range pending { // in the order of their tails
		if _, ok := links[p.Path]; !ok {
			return max(p.Tail-1, s.Floor), false
		}
	}
	return s.Floor, true
}

// held returns the links of named streams and those that prevent missed messages. The others can be
// forgotten, but then messages from Base on may be repeated.
func (s *Subscription) held(pending []Stream) map[string]Link {
	links := map[string]Link{}
	for path, link := range s.Links {
		if link.Explicit {
			links[path] = link
		}
	}
	for _, p := range pending {
		if link, ok := s.Links[p.Path]; ok && (link.Acked < s.Base || p.Tail <= s.Floor) {
			links[p.Path] = link
		}
	}
	return links
}

// shed reduces links that exceed the room even after all dispensable ones were forgotten. The
// streams of the next wake get links, so that Floor advances even if they are never acknowledged:
// others are done meanwhile. Then come links of pending streams, and then, if there is room, of
// streams that are done up to a place behind Floor, in ascending order: messages of the forgotten
// ones are repeated.
func (s *Subscription) shed(pending []Stream, at uint64) {
	links := s.held(pending)
	left := rest(links)
	keep := func(path string, acked uint64) {
		if _, ok := links[path]; !ok && left.take(path) {
			links[path] = Link{Acked: acked}
		}
	}
	for _, p := range Named(pending) {
		keep(p.Path, p.Acked)
	}
	for _, p := range pending {
		if s.linked(p.Path) {
			keep(p.Path, p.Acked)
		}
	}
	floor, all := s.unlinked(pending, links)
	if all {
		s.Links, s.Floor, s.Base = links, at, at
		return
	}
	for _, done := range s.ahead(floor) {
		keep(done.Path, done.Acked)
	}
	s.Links, s.Floor = links, floor
}

func (s *Subscription) linked(path string) bool {
	_, ok := s.Links[path]
	return ok
}

// ahead returns the streams with links that are done up to a place behind floor.
func (s *Subscription) ahead(floor uint64) []Stream {
	var all []Stream
	for path, link := range s.Links {
		if link.Acked > floor {
			all = append(all, Stream{Path: path, Acked: link.Acked, Tail: link.Acked})
		}
	}
	slices.SortFunc(all, byTail)
	return all
}
