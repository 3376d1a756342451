package streamsub

import (
	"cmp"
	"slices"
)

// mostNamed is how many streams a wake names at most.
const mostNamed = 1000

// View is what is in the log: where the streams end that have something behind Floor, and those that are
// explicit or acknowledged, by relative path. A stream that is not in it is not there, or nobody may know of it.
type View struct {
	At    uint64 // it is that of this sequence of the log
	Tails map[string]uint64

	// Shown is the last message that the subscription's maker may see of a stream whose end it may not see; 0: none. A cursor
	// may be anywhere up to the end, for readers are told where it is.
	Shown map[string]uint64
}

// shown returns where a stream ends as far as the subscription's maker may see it.
func (v View) shown(path string) uint64 {
	if seq, withheld := v.Shown[path]; withheld {
		return seq
	}
	return v.Tails[path]
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
		if acked, shown := s.cursor(path, tail), v.shown(path); shown > acked && s.Follows(path) {
			all = append(all, Stream{Path: path, Explicit: s.Links[path].Explicit, Acked: acked, Tail: shown})
		}
	}
	slices.SortFunc(all, byTail)
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
