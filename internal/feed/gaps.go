package feed

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// withGaps adds a frame for each range of lost events that the feed has passed, once, before the
// first event behind the beginning of the range. A range that is discovered later gets its frame
// then.
func (f *Feed) withGaps(frames []Frame) []Frame {
	lost := f.engine.opts.Lost
	if lost == nil {
		return frames
	}
	for _, g := range sluice.GapsWithin(lost(f.wish.Namespace), f.since, lastSeq, f.misses) {
		if g.From > f.place || slices.Contains(f.told, g) {
			continue
		}
		f.told = append(f.told, g)
		at := slices.IndexFunc(frames, func(frame Frame) bool { return frame.Seq > g.From })
		if at < 0 {
			at = len(frames)
		}
		frames = slices.Insert(frames, at, Frame{Lagged: &Lagged{
			Missed: int(g.Events), Oldest: g.To + 1, Head: f.hub.ring().Last(), Unreadable: &g, //nolint:gosec // a count
		}})
	}
	return frames
}

// misses reports whether this feed might have shown lost events of a path.
func (f *Feed) misses(path sluice.Path) bool {
	wants := sluice.Object{Namespace: f.wish.Namespace, Pattern: sluice.Pattern(path)}
	return f.wish.Pattern.Match(path) && f.engine.gate.May(f.wish.Caller, sluice.VerbRead, wants, time.Now()) == model.Pass
}
