package streamsub

import (
	"cmp"
	"slices"
)

// mostNamed limits the streams named in a wake.
const mostNamed = 1000

// View is the state of the log for one subscription. It has the ends, by relative path, of streams
// that end behind Floor, and of explicit and acknowledged streams. Of these, a stream that is
// missing does not exist or must stay hidden.
type View struct {
	At    uint64 // the sequence up to which it covers the log
	Tails map[string]uint64

	// Shown is, for a stream whose last message the subscription's owner may not see, the last
	// message that it may see; 0: none. A cursor may still be anywhere up to the real end, because
	// readers learn where that is.
	Shown map[string]uint64
}

// shown returns the last message of a stream that the subscription's owner may see.
func (v View) shown(path string) uint64 {
	if seq, withheld := v.Shown[path]; withheld {
		return seq
	}
	return v.Tails[path]
}

// Stream is a stream of a subscription.
type Stream struct {
	Path     string
	Explicit bool
	Acked    uint64
	Tail     uint64
}

// Pending reports whether the stream has messages behind its cursor.
func (s Stream) Pending() bool { return s.Tail > s.Acked }

// cursor returns the position up to which a stream with the given tail is done.
func (s *Subscription) cursor(path string, tail uint64) uint64 {
	if link, ok := s.Links[path]; ok {
		return link.Acked
	}
	if tail <= s.Floor {
		return tail
	}
	return s.Base
}

// Pending returns the streams with new messages, ordered by their last message, oldest first. The
// cost is O(n log n) for n tails.
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

// Named returns the first of the pending streams: as many as one wake can name.
func Named(pending []Stream) []Stream {
	return pending[:within(pending[:min(len(pending), mostNamed)], mostText)]
}

// Told returns the streams of a notice, ordered by path: the streams of the wake, with their ends
// when it began, and then other streams with links, up to mostNamed in all.
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
