package watch

import (
	"math"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// missGaps counts the ranges of lost events that the watch has passed, each once. A range that is
// discovered later is counted then. The record says which ranges were counted. Events of such a
// range that are found again are not evaluated.
func (r *runner) missGaps(now time.Time) {
	if r.opts.Lost == nil {
		return
	}
	w := r.watch
	for _, g := range sluice.GapsWithin(r.opts.Lost(w.Namespace), w.FromSeq, math.MaxUint64, w.Pattern.Match) {
		if g.From <= r.state.Place() && r.mayRead(g.Path) && r.state.Gap(g, now) {
			r.dirty = true
		}
	}
}

// mayRead reports whether the watch's creator may read lost events of a path; "" is an unknown
// path.
func (r *runner) mayRead(path sluice.Path) bool {
	return path == "" || r.ports.Gate.Shows(r.watch.Creator, &sluice.Event{Namespace: r.watch.Namespace, Path: path}) == model.Pass
}
