// Package retry decides whether there is another attempt after a failure, and computes its time. It
// is pure: the time and the randomness are arguments.
package retry

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	day = 24 * time.Hour

	// persistence is how long the persistent timetable continues after the first failure (S1-125).
	persistence = 3 * day
)

// timetable is how long to wait after each attempt.
type timetable struct {
	steps    []time.Duration // after attempt 1, 2, …; the last repeats
	attempts int             // the first included; 0: no limit
	lasts    time.Duration   // after the first failure; 0: no limit
	ceiling  time.Duration   // limit of a Retry-After
	jitter   func(attempt int, wait time.Duration, random float64) time.Duration
}

func timetableOf(r sluice.Retry) timetable {
	switch r.Preset {
	case sluice.PresetShort:
		return short()
	case sluice.PresetPersistent:
		return persistent()
	case sluice.PresetStepped:
		return stepped()
	case sluice.PresetCustom:
		return custom(r)
	case sluice.PresetStandard:
	}
	return standard()
}

// standard waits 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, each ±20 %: 10 attempts in
// 75 h 35 m 5 s.
func standard() timetable {
	return timetable{
		steps: []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
		attempts: 10,
		ceiling:  24 * time.Hour,
		jitter:   spread(0.2),
	}
}

// short waits 1 s, 2 s, 4 s … 256 s: 10 attempts in 511 s. It doubles up to 300 s, which ten
// attempts do not reach (S0-42…45).
func short() timetable {
	return timetable{steps: doubling(time.Second, 300*time.Second, 9), attempts: 10, ceiling: 300 * time.Second, jitter: spread(0)}
}

// persistent waits 200 ms, 400 ms, 800 ms … 25.6 s, 30 s, 30 s, each and up to 1 s more, then
// 60 s and up to 5 s more, again and again until three days after the first failure
// (S1-117, S1-118, S1-125).
func persistent() timetable {
	return timetable{
		steps:   append(doubling(200*time.Millisecond, 30*time.Second, 10), time.Minute),
		lasts:   persistence,
		ceiling: time.Minute,
		jitter: func(attempt int, wait time.Duration, random float64) time.Duration {
			most := 5 * time.Second
			if attempt <= 10 {
				most = time.Second
			}
			return wait + scale(most, random)
		},
	}
}

// stepped waits 10 s, 30 s, 2 m, 10 m, 30 m and then 30 m again: 12 attempts in 3 h 42 m 40 s
// (S4-51, S4-52).
func stepped() timetable {
	return timetable{
		steps:    []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute},
		attempts: 12,
		ceiling:  30 * time.Minute,
		jitter:   spread(0),
	}
}

// custom waits as the subscription defines; without a number of attempts each step is used once.
func custom(r sluice.Retry) timetable {
	steps := make([]time.Duration, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = s.Std()
	}
	attempts := r.MaxAttempts
	if attempts == 0 {
		attempts = len(steps) + 1
	}
	ceiling := time.Duration(0)
	if len(steps) > 0 {
		ceiling = slices.Max(steps)
	}
	return timetable{steps: steps, attempts: attempts, ceiling: ceiling, jitter: spread(r.Jitter)}
}

// doubling returns n waits from first on, each twice the one before and at most the limit.
func doubling(first, limit time.Duration, n int) []time.Duration {
	steps := make([]time.Duration, n)
	for i := range steps {
		steps[i] = min(first, limit)
		first *= 2
	}
	return steps
}

// spread returns a jitter that lengthens or shortens a wait by a random amount, at most this part
// of it.
func spread(part float64) func(int, time.Duration, float64) time.Duration {
	return func(_ int, wait time.Duration, random float64) time.Duration {
		return scale(wait, 1+part*(2*random-1))
	}
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// Next returns when the attempt that follows the given attempt number is due, and false if none is
// left. firstFailed is when the delivery failed first, zero if it failed first now. random, in [0,
// 1), chooses the result within the jitter.
func Next(r sluice.Retry, attempt int, firstFailed, now time.Time, random float64) (time.Time, bool) {
	t := timetableOf(r)
	attempt = max(attempt, 1)
	if len(t.steps) == 0 || t.attempts > 0 && attempt >= t.attempts {
		return time.Time{}, false
	}
	wait := t.steps[min(attempt, len(t.steps))-1]
	at := now.Add(t.jitter(attempt, wait, random))
	if t.lasts > 0 && !firstFailed.IsZero() && at.After(firstFailed.Add(t.lasts)) {
		return time.Time{}, false
	}
	return at, true
}

// Cap returns the longest wait of the timetable without jitter. A Retry-After delays an attempt by
// no more than that.
func Cap(r sluice.Retry) time.Duration { return timetableOf(r).ceiling }
