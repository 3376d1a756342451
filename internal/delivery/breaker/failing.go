package breaker

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Failing tracks continuous failure: since when every attempt has failed, and the percentage of the
// time until the subscription is disabled that was announced last. It is an immutable value without
// clock and I/O.
type Failing struct {
	Since   time.Time // zero: not every attempt fails
	Alerted int
}

// Judgement is the consequence of an attempt for its subscription.
type Judgement int

// The judgements.
const (
	Tolerated    Judgement = iota // none
	EndpointGone                  // the endpoint is gone
	TooLong                       // continuous failure has lasted too long, so the subscription has to be disabled
)

// Judge applies an attempt; nil: none was made. Failure that lasts longer than after disables the
// subscription. When Alerted of the result has grown, the caller announces it; percentages that are
// passed at once are announced only as the highest.
func (f Failing) Judge(a *sluice.Attempt, after time.Duration, now time.Time) (Failing, Judgement) {
	switch {
	case a == nil:
		return f, Tolerated
	case a.Verdict.Cancel:
		return Failing{}, EndpointGone
	case a.Outcome == sluice.Delivered:
		return Failing{}, Tolerated
	case f.Since.IsZero():
		f.Since = now.Add(-a.Duration.Std()) // now has a monotonic reading
		return f, Tolerated
	}
	lasts, reached := now.Sub(f.Since), 0
	for _, percent := range []int{50, 70, 90, 100} {
		if lasts > after/100*time.Duration(percent) {
			reached = percent
		}
	}
	f.Alerted = max(f.Alerted, reached)
	if lasts > after {
		return f, TooLong
	}
	return f, Tolerated
}
