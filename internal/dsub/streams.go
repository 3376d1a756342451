package dsub

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds of what is kept and told.
const (
	mostNamed = 1000 // streams of one wake
	keepLinks = 256  // links that are kept although they could be forgotten
	mostLinks = 4000 // links that are kept so that Base can follow Floor

	// mostText is how many bytes the names of streams may take in a record for each of these purposes, so that it
	// fits into a message, whatever becomes of it.
	mostText     = 160 << 10
	mostLinkText = 384 << 10 // of links that are kept so that Base can follow Floor
)

// weight returns how many bytes the name of a stream takes in a record, with what is said of it.
func weight(path string) int {
	n := len(path) + len(`"":{"acked":9999999999999999},`)
	for i := range len(path) {
		if strings.IndexByte(`<>&"\`, path[i]) >= 0 {
			n += len(`\u003c`) - 1
		}
	}
	return n
}

// within returns how many of the streams have names that take not more than so many bytes together.
func within(all []Stream, bytes int) int {
	for i, s := range all {
		if bytes -= weight(s.Path); bytes < 0 {
			return i
		}
	}
	return len(all)
}

// View is what is in the log: where the streams end that have something behind Floor, and those that are
// explicit or acknowledged, by relative path. A stream that is not in it is not there, or nobody may know of it.
type View struct {
	At    uint64 // it is that of this sequence of the log
	Tails map[string]uint64
}

// Stream is a stream as a subscription has it.
type Stream struct {
	Path     string
	Explicit bool
	Acked    uint64
	Tail     uint64
}

// Pending reports whether there is something new.
func (s Stream) Pending() bool { return s.Tail > s.Acked }

// cursor returns up to where a stream that ends at a place is done.
func (s *Subscription) cursor(path string, tail uint64) uint64 {
	if link, ok := s.Links[path]; ok {
		return link.Acked
	}
	if tail <= s.Floor {
		return tail
	}
	return s.Base
}

// Pending returns the streams that have something new, those first that got it the longest ago.
func Pending(s *Subscription, v View) []Stream {
	var all []Stream
	for path, tail := range v.Tails {
		if acked := s.cursor(path, tail); tail > acked && s.Follows(path) {
			all = append(all, Stream{Path: path, Explicit: s.Links[path].Explicit, Acked: acked, Tail: tail})
		}
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Or(cmp.Compare(a.Tail, b.Tail), cmp.Compare(a.Path, b.Path)) })
	return all
}

// Named returns the first of the streams that a wake names.
func Named(pending []Stream) []Stream {
	return pending[:within(pending[:min(len(pending), mostNamed)], mostText)]
}

// Told returns what a notice says of the streams: those that have something new as they were when the
// wake began, and the others that have a link, by path.
func (s *Subscription) Told() []Stream {
	var all []Stream
	if s.Wake != nil {
		for path, tail := range s.Wake.Snapshot {
			all = append(all, Stream{Path: path, Explicit: s.Links[path].Explicit, Acked: s.cursor(path, tail), Tail: tail})
		}
	}
	for path, link := range s.Links {
		if len(all) >= mostNamed {
			break
		}
		if s.Wake == nil || s.Wake.Snapshot[path] == 0 {
			all = append(all, Stream{Path: path, Explicit: link.Explicit, Acked: link.Acked, Tail: link.Acked})
		}
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// fold forgets links, if there are many: Floor is moved behind what is done.
func (s *Subscription) fold(v View) {
	pending := Pending(s, v)
	unlinked, linked := 0, 0
	for _, p := range pending {
		if _, ok := s.Links[p.Path]; !ok {
			unlinked++
		}
	}
	for _, link := range s.Links {
		if !link.Explicit {
			linked++
		}
	}
	switch {
	case linked <= keepLinks:
	case len(pending) <= mostLinks && within(pending, mostLinkText) == len(pending):
		s.foldAll(pending, v.At)
	case unlinked > 0:
		s.foldPart(pending)
	}
}

// foldAll gives every stream that has something new a link. All others can be forgotten then.
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

// foldPart forgets the links of streams that ended before every stream without a link which has something new.
// Base stays: if one of the forgotten gets something new, it is told from Base on, and some of it again.
func (s *Subscription) foldPart(pending []Stream) {
	floor, behind := uint64(0), map[string]bool{}
	for _, p := range pending { // in the order of their tails
		behind[p.Path] = true
		if _, ok := s.Links[p.Path]; !ok && floor == 0 {
			floor = p.Tail - 1
		}
	}
	if floor <= s.Floor {
		return
	}
	for path, link := range s.Links {
		if !link.Explicit && !behind[path] && link.Acked <= floor {
			delete(s.Links, path)
		}
	}
	s.Floor = floor
}
