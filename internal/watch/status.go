package watch

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// status returns a watch's status from its stored progress. Whether a path is cooling down depends
// on now, not on later readings.
func (r *Record) status(w *sluice.Watch, now time.Time) *sluice.WatchStatus {
	if r.Revision != w.Revision { // no progress yet, or that of an earlier revision
		return &sluice.WatchStatus{Place: w.FromSeq}
	}
	t := r.Totals
	is := &sluice.WatchStatus{
		Place: r.Place, Readings: t.Looked, Missed: t.Missed, Throttled: t.Throttled,
		Fired: t.Fired, FiredAt: t.FiredAt, FiredSeq: t.FiredSeq, Outcome: t.Outcome,
	}
	for _, p := range r.Paths {
		if p.Met {
			is.Holds++
		}
		if until := time.UnixMilli(p.Fired).Add(w.Cooldown.Std()).UTC(); p.Fired != 0 && until.After(now) {
			is.Cooling++
			if until.After(is.CoolsUntil) {
				is.CoolsUntil = until
			}
		}
	}
	return is
}
