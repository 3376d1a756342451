package streamsub

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Limits of a record. It is stored as one message of 1 MiB at most. That must hold the streams of
// its configuration, the links of named streams, the links of other streams, the streams of a wake,
// and some 50 KiB for the rest. Names are counted in JSON form, where a byte can take six.
const (
	mostText     = 160 << 10 // bytes of the named streams; also of the streams of a wake
	mostLinkText = 384 << 10 // bytes of the links of other streams
	mostLinks    = 4000      // of other streams
	keepLinks    = 256       // number of links that fold does not bother to remove
)

// weight returns how many bytes a stream's name and state take in a record. It counts them in JSON
// as Go writes it, without the member explicit.
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

// within returns how many of the first streams fit into this many bytes together.
func within(all []Stream, bytes int) int {
	for i, s := range all {
		if bytes -= weight(s.Path); bytes < 0 {
			return i
		}
	}
	return len(all)
}

// room is the space that is left for links of streams that are not named.
type room struct{ links, text int }

func (r *room) take(path string) bool {
	w := weight(path)
	if r.links < 1 || r.text < w {
		return false
	}
	r.links, r.text = r.links-1, r.text-w
	return true
}

// rest returns the room that links leave; negative values are the excess.
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

// fold removes links when a wake is over, if there are more than keepLinks.
func (s *Subscription) fold(v View) {
	if left := rest(s.Links); mostLinks-left.links > keepLinks {
		s.settle(v)
	}
}

// fit removes links when a record has no room for them, even during a wake. It is the last thing
// that Step does, so every stored record fits.
func (s *Subscription) fit(v View) {
	if left := rest(s.Links); left.over() {
		s.settle(v)
	}
}

// settle moves Floor behind streams that are done, so that their links can be removed.
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

// behind is Pending, except that a stream in the wake ends at its snapshot, because Floor must not
// overtake that.
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

// foldAll gives every pending stream a link, and moves Floor to the end of the log. Then all links
// of other streams that are not named can be removed.
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

// foldPart moves Floor right before the first pending stream without a link, and removes the links
// of done streams up to there. Base stays. So if such a stream gets a new message, it is read from
// Base on, and some of its messages are repeated.
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

// unlinked returns how far Floor can move: right before the first pending stream that has none of
// the links. all reports that there is no such stream.
func (s *Subscription) unlinked(pending []Stream, links map[string]Link) (floor uint64, all bool) {
	for _, p := range pending { // ordered by tail
		if _, ok := links[p.Path]; !ok {
			return max(p.Tail-1, s.Floor), false
		}
	}
	return s.Floor, true
}

// held returns the links that must be kept: those of named streams, and those without which
// messages would be missed. Removing any other link only repeats messages from Base on.
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

// shed reduces the links if they exceed the room even after foldPart. It fills the room in this
// order. First, the streams of the next wake get links, so that Floor can advance past other
// streams that are done, even if these are never acknowledged. Second come the links of pending
// streams. Third, if there is room, come the links of streams that are done up to a place behind
// Floor, in ascending order of that place. Messages of streams that lose their link are repeated.
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

// ahead returns the linked streams that are done up to a place behind floor, ordered by that place.
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
