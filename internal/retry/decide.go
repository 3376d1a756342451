package retry

import (
	"cmp"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decide returns the consequence of an attempt's outcome under the policy. The arguments after the
// attempt are those of Next.
func Decide(p sluice.Policy, a sluice.Attempt, firstFailed, now time.Time, random float64) sluice.Verdict {
	v := decide(p, a, firstFailed, now, random)
	if Holds(p, v.Dead) {
		return sluice.Verdict{Held: v.Dead}
	}
	return v
}

// Holds reports whether the policy holds a delivery that is given up for the reason: its lane then
// waits for an operator's decision. A delivery that has become impossible is never held.
func Holds(p sluice.Policy, reason sluice.Reason) bool {
	switch reason {
	case sluice.Exhausted, sluice.NotSendable, sluice.EventTooLarge, sluice.FilterError, sluice.HandlerRefused, sluice.HandlerCrashed, sluice.OutputRefused:
		return p.OnDead == sluice.DeadHolds
	case sluice.Expired, sluice.Unreadable, sluice.EndpointGone, sluice.Malformed, sluice.Loop:
	}
	return false
}

func decide(p sluice.Policy, a sluice.Attempt, firstFailed, now time.Time, random float64) sluice.Verdict {
	switch a.Outcome {
	case sluice.Delivered:
		return sluice.Verdict{Settled: true}
	case sluice.Refused:
		return sluice.Verdict{Dead: cmp.Or(a.Dead, sluice.NotSendable)}
	case sluice.Gone:
		if p.OnGone == sluice.GoneCancels {
			return sluice.Verdict{Cancel: true}
		}
	case sluice.Failed:
	}
	at, ok := Next(p.Retry, a.Number, firstFailed, now, random)
	if !ok {
		return sluice.Verdict{Dead: sluice.Exhausted}
	}
	if asked := now.Add(min(a.RetryAfter, Cap(p.Retry))); asked.After(at) {
		at = asked
	}
	return sluice.Verdict{Again: at}
}
