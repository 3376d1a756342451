package watch

import (
	"math"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// begin notes where this process takes the watch up: gaps that begin before were passed, and told,
// by the process before.
func (r *runner) begin() {
	if !r.begun {
		r.begun, r.began = true, r.state.Place()
		r.state.kept.Gaps = nil
	}
}

// missGaps counts the ranges of lost events that the watch has passed. A range that is found later
// is counted when it is found.
func (r *runner) missGaps(now time.Time) {
	if r.opts.Lost == nil {
		return
	}
	w := r.watch
	for _, g := range sluice.GapsWithin(r.opts.Lost(w.Namespace), w.FromSeq, math.MaxUint64, w.Pattern.Match) {
		passed := r.began < g.From && g.From <= r.state.Place()
		if passed && r.mayRead(g.Path) && r.state.Gap(g, now) {
			r.dirty = true
		}
	}
}

// mayRead reports whether the watch's creator may read lost events of a path, "" for an unknown one.
func (r *runner) mayRead(path sluice.Path) bool {
	return path == "" || r.ports.Gate.Shows(r.watch.Creator, &sluice.Event{Namespace: r.watch.Namespace, Path: path}) == model.Pass
}
