package retry

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a custom timetable.
const (
	MinStep     = 100 * time.Millisecond
	MaxStep     = 7 * day
	MaxAttempts = 100
)

// Check returns an error (InvalidRequest) unless the timetable can be followed: a preset takes
// no numbers, custom takes steps of 100 ms to 7 days, at most 100 attempts and a jitter of 0
// to 1.
func Check(r sluice.Retry) error {
	switch r.Preset {
	case sluice.PresetStandard, sluice.PresetShort, sluice.PresetPersistent, sluice.PresetStepped:
		if len(r.Steps) > 0 || r.MaxAttempts != 0 || r.Jitter != 0 {
			return sluice.Errorf(sluice.InvalidRequest, "policy.retry: steps, max_attempts and jitter require the preset custom, not %s", r.Preset).With("field", "policy.retry")
		}
		return nil
	case sluice.PresetCustom:
		return checkCustom(r)
	}
	return sluice.Errorf(sluice.InvalidRequest, "policy.retry.preset %q: use standard, short, persistent, stepped, custom", r.Preset).With("field", "policy.retry.preset")
}

func checkCustom(r sluice.Retry) error {
	switch {
	case len(r.Steps) == 0:
		return sluice.Errorf(sluice.InvalidRequest, "policy.retry.steps: custom needs at least one step, such as \"10s\"").With("field", "policy.retry.steps")
	case len(r.Steps) >= MaxAttempts:
		return sluice.Errorf(sluice.InvalidRequest, "policy.retry.steps: use at most %d", MaxAttempts-1).With("field", "policy.retry.steps")
	case r.MaxAttempts < 0 || r.MaxAttempts > MaxAttempts:
		return sluice.Errorf(sluice.InvalidRequest, "policy.retry.max_attempts: use 1 to %d", MaxAttempts).With("field", "policy.retry.max_attempts")
	case !(r.Jitter >= 0 && r.Jitter <= 1):
		return sluice.Errorf(sluice.InvalidRequest, "policy.retry.jitter: use 0 to 1").With("field", "policy.retry.jitter")
	}
	for _, s := range r.Steps {
		if s.Std() < MinStep || s.Std() > MaxStep {
			return sluice.Errorf(sluice.InvalidRequest, "policy.retry.steps: %s is not between %s and %s", s, MinStep, MaxStep).With("field", "policy.retry.steps")
		}
	}
	return nil
}
