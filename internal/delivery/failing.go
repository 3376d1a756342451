package delivery

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// failing is continuous failure: since when every attempt failed, and the last announced percentage
// of the time until the subscription is disabled. It is a value: no clock, no I/O.
type failing struct {
	since   time.Time // zero: not so
	alerted int
}

// judgement is the consequence of an attempt for its subscription.
type judgement int

const (
	judgedWell judgement = iota // none
	judgedGone                  // the endpoint is gone
	judgedOver                  // continuous failure has lasted too long: the subscription is disabled
)

// judge enters an attempt; nil: none was made. Failure that lasts longer than after disables.
// alerted is the percentage to announce when it grows: of several at once only the last.
func (f failing) judge(a *sluice.Attempt, after time.Duration, now time.Time) (failing, judgement) {
	switch {
	case a == nil:
		return f, judgedWell
	case a.Verdict.Cancel:
		return failing{}, judgedGone
	case a.Outcome == sluice.Delivered:
		return failing{}, judgedWell
	case f.since.IsZero():
		f.since = now.Add(-a.Duration.Std()) // by the monotonic clock
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
