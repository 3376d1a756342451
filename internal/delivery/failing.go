package delivery

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// failing tracks continuous failure: since when every attempt has failed, and the percentage of the
// time until the subscription is disabled that was announced last. It is an immutable value without
// clock and I/O.
type failing struct {
	since   time.Time // zero: not every attempt fails
	alerted int
}

// judgement is the consequence of an attempt for its subscription.
type judgement int

const (
	judgedWell judgement = iota // none
	judgedGone                  // the endpoint is gone
	judgedOver                  // continuous failure has lasted too long, so the subscription has to be disabled
)

// judge applies an attempt; nil: none was made. Failure that lasts longer than after disables the
// subscription. When alerted of the result has grown, the caller announces it; percentages that are
// passed at once are announced only as the highest.
func (f failing) judge(a *sluice.Attempt, after time.Duration, now time.Time) (failing, judgement) {
	switch {
	case a == nil:
		return f, judgedWell
	case a.Verdict.Cancel:
		return failing{}, judgedGone
	case a.Outcome == sluice.Delivered:
		return failing{}, judgedWell
	case f.since.IsZero():
		f.since = now.Add(-a.Duration.Std()) // now has a monotonic reading
		return f, judgedWell
	}
	lasts, reached := now.Sub(f.since), 0
	for _, percent := range []int{50, 70, 90, 100} {
		if lasts > after/100*time.Duration(percent) {
			reached = percent
		}
	}
	f.alerted = max(f.alerted, reached)
	if lasts > after {
		return f, judgedOver
	}
	return f, judgedWell
}
