package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// follow returns the waits of a timetable whose attempts all fail at once, as many as there
// are or limit.
func follow(r sluice.Retry, random float64, limit int) []time.Duration {
	now, first := epoch, time.Time{}
	var waits []time.Duration
	for attempt := 1; len(waits) < limit; attempt++ {
		at, ok := retry.Next(r, attempt, first, now, random)
		if !ok {
			break
		}
		waits = append(waits, at.Sub(now))
		now, first = at, epoch
	}
	return waits
}

func durations(t *testing.T, words ...string) []time.Duration {
	t.Helper()
	out := make([]time.Duration, len(words))
	for i, w := range words {
		d, err := time.ParseDuration(w)
		require.NoError(t, err)
		out[i] = d
	}
	return out
}

func sum(waits []time.Duration) time.Duration {
	total := time.Duration(0)
	for _, w := range waits {
		total += w
	}
	return total
}

func preset(p sluice.Preset) sluice.Retry { return sluice.Retry{Preset: p} }

// C02, S0-42…45, S1-117, S1-118, S4-51, S4-52: every wait of every timetable.
func TestTimetable_KnownWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		retry  sluice.Retry
		random float64
		want   []string
	}{
		{"standard, without jitter", preset("standard"), 0.5, []string{"5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"}},
		{"standard, the earliest", preset("standard"), 0, []string{"4s", "4m", "24m", "96m", "4h", "8h", "672m", "16h", "1152m"}},
		{"the default is standard", preset(""), 0.5, []string{"5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"}},
		{"short", preset("short"), 0.9, []string{"1s", "2s", "4s", "8s", "16s", "32s", "64s", "128s", "256s"}},
		{"stepped", preset("stepped"), 0.9, []string{"10s", "30s", "2m", "10m", "30m", "30m", "30m", "30m", "30m", "30m", "30m"}},
		{"persistent, without jitter", preset("persistent"), 0, []string{
			"200ms", "400ms", "800ms", "1.6s", "3.2s", "6.4s", "12.8s", "25.6s", "30s", "30s", "60s", "60s",
		}},
		{"persistent, half of the jitter", preset("persistent"), 0.5, []string{
			"700ms", "900ms", "1.3s", "2.1s", "3.7s", "6.9s", "13.3s", "26.1s", "30.5s", "30.5s", "62.5s", "62.5s",
		}},
		{"custom: the last step repeats", sluice.Retry{Preset: "custom", Steps: []sluice.Duration{1e9, 3e9}, MaxAttempts: 5}, 0.9, []string{"1s", "3s", "3s", "3s"}},
		{"custom: each step once", sluice.Retry{Preset: "custom", Steps: []sluice.Duration{1e9, 3e9}}, 0, []string{"1s", "3s"}},
		{"custom: fewer attempts than steps", sluice.Retry{Preset: "custom", Steps: []sluice.Duration{1e9, 3e9}, MaxAttempts: 2}, 0, []string{"1s"}},
		{"custom: one attempt", sluice.Retry{Preset: "custom", Steps: []sluice.Duration{1e9}, MaxAttempts: 1}, 0, []string{}},
		{"custom: jitter", sluice.Retry{Preset: "custom", Steps: []sluice.Duration{4e9}, MaxAttempts: 3, Jitter: 0.5}, 0, []string{"2s", "2s"}},
	} {
		require.Equal(t, durations(t, c.want...), append([]time.Duration{}, follow(c.retry, c.random, 12)...), c.name)
	}
}

// C02: the spans that the specifications' timetables have.
func TestTimetable_KnownSpans(t *testing.T) {
	t.Parallel()
	require.Equal(t, 511*time.Second, sum(follow(preset("short"), 0, 100)))
	require.Equal(t, 3*time.Hour+42*time.Minute+40*time.Second, sum(follow(preset("stepped"), 0, 100)))
	require.Equal(t, 75*time.Hour+35*time.Minute+5*time.Second, sum(follow(preset("standard"), 0.5, 100)))
	require.Equal(t, 111*time.Second, sum(follow(preset("persistent"), 0, 10)))
}

// S1-125.
func TestPersistent_GivesUpAfterThreeDays(t *testing.T) {
	t.Parallel()
	waits := follow(preset("persistent"), 0, 10_000)
	require.InDelta(t, 4328, len(waits), 2) // 111 s for the first ten, then every minute
	require.LessOrEqual(t, sum(waits), 72*time.Hour)
	require.Greater(t, sum(waits), 72*time.Hour-2*time.Minute)

	last := epoch.Add(72*time.Hour - time.Minute)
	_, ok := retry.Next(preset("persistent"), 5000, epoch, last, 0)
	require.True(t, ok)
	_, ok = retry.Next(preset("persistent"), 5000, epoch, last.Add(1), 0)
	require.False(t, ok)
	_, ok = retry.Next(preset("persistent"), 5000, time.Time{}, last, 0) // failing first only now
	require.True(t, ok)
}

func TestTimetable_OnlyPersistentUsesTheFirstFailure(t *testing.T) {
	t.Parallel()
	_, ok := retry.Next(preset("standard"), 9, epoch, epoch.Add(1000*time.Hour), 0)
	require.True(t, ok)
	_, ok = retry.Next(preset("standard"), 10, epoch, epoch, 0)
	require.False(t, ok)
}

func retries() *rapid.Generator[sluice.Retry] {
	return rapid.Custom(func(t *rapid.T) sluice.Retry {
		p := rapid.SampledFrom([]sluice.Preset{"standard", "short", "persistent", "stepped", "custom"}).Draw(t, "preset")
		if p != sluice.PresetCustom {
			return preset(p)
		}
		step := rapid.Int64Range(int64(retry.MinStep), int64(retry.MaxStep))
		r := sluice.Retry{
			Preset: p, MaxAttempts: rapid.IntRange(0, retry.MaxAttempts).Draw(t, "attempts"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		for _, s := range rapid.SliceOfN(step, 1, 20).Draw(t, "steps") {
			r.Steps = append(r.Steps, sluice.Duration(s))
		}
		return r
	})
}

func TestTimetable_EndsAndStaysWithinItsJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := retries().Draw(t, "retry")
		require.NoError(t, retry.Check(r))
		attempt := rapid.IntRange(1, 120).Draw(t, "attempt")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		at, ok := retry.Next(r, attempt, epoch, epoch, random)
		early, okEarly := retry.Next(r, attempt, epoch, epoch, 0)
		late, okLate := retry.Next(r, attempt, epoch, epoch, 1)
		require.True(t, ok == okEarly && ok == okLate, "whether an attempt is left is no chance")
		if !ok {
			require.GreaterOrEqual(t, attempt, 1)
			_, again := retry.Next(r, attempt+1, epoch, epoch, random)
			require.False(t, again, "an end is an end")
			return
		}
		require.False(t, at.Before(early) || at.After(late))
		require.False(t, early.Before(epoch))
		require.LessOrEqual(t, late.Sub(epoch), 2*retry.Cap(r)+5*time.Second)
	})
}

func TestPreset_WaitsNeverShrink(t *testing.T) {
	t.Parallel()
	for _, p := range []sluice.Preset{"standard", "short", "persistent", "stepped"} {
		waits := follow(preset(p), 0, 200)
		require.NotEmpty(t, waits)
		for i := 1; i < len(waits); i++ {
			require.GreaterOrEqual(t, waits[i], waits[i-1], p)
		}
		require.LessOrEqual(t, waits[len(waits)-1], retry.Cap(preset(p)))
	}
}

func TestCap_IsTheLongestWait(t *testing.T) {
	t.Parallel()
	for p, want := range map[sluice.Preset]time.Duration{
		"standard": 24 * time.Hour, "short": 300 * time.Second, "persistent": time.Minute, "stepped": 30 * time.Minute,
	} {
		require.Equal(t, want, retry.Cap(preset(p)), p)
	}
	require.Equal(t, 9*time.Second, retry.Cap(sluice.Retry{Preset: "custom", Steps: []sluice.Duration{1e9, 9e9, 2e9}}))
}

func TestDecide_KnownOutcomes(t *testing.T) {
	t.Parallel()
	policy := sluice.Policy{Retry: preset("stepped"), OnGone: sluice.GoneCancels}
	tolerant := policy
	tolerant.OnGone = sluice.GoneRetries
	holding := tolerant
	holding.OnDead = sluice.DeadHolds
	at := func(d time.Duration) sluice.Verdict { return sluice.Verdict{Again: epoch.Add(d)} }
	for _, c := range []struct {
		name    string
		policy  sluice.Policy
		attempt sluice.Attempt
		want    sluice.Verdict
	}{
		{"a 2xx settles", policy, sluice.Attempt{Outcome: sluice.Delivered, Number: 12}, sluice.Verdict{Settled: true}},
		{"a 410 cancels (C06)", policy, sluice.Attempt{Outcome: sluice.Gone, Number: 1}, sluice.Verdict{Cancel: true}},
		{"a 410 is a failure if so wished", tolerant, sluice.Attempt{Outcome: sluice.Gone, Number: 1}, at(10 * time.Second)},
		{"and the last one, too", tolerant, sluice.Attempt{Outcome: sluice.Gone, Number: 12}, sluice.Verdict{Dead: sluice.Exhausted}},
		{"what cannot be sent is dead", policy, sluice.Attempt{Outcome: sluice.Refused, Number: 1}, sluice.Verdict{Dead: sluice.NotSendable}},
		{"what is too large is dead", policy, sluice.Attempt{Outcome: sluice.Refused, Dead: sluice.EventTooLarge, Number: 1}, sluice.Verdict{Dead: sluice.EventTooLarge}},
		{"a failure is tried again", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 3}, at(2 * time.Minute)},
		{"the last failure is dead", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 12}, sluice.Verdict{Dead: sluice.Exhausted}},
		{"Retry-After raises the wait", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 1, RetryAfter: time.Minute}, at(time.Minute)},
		{"Retry-After never lowers it", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 3, RetryAfter: time.Second}, at(2 * time.Minute)},
		{"Retry-After ends at the cap", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 1, RetryAfter: 1000 * time.Hour}, at(30 * time.Minute)},
		{"Retry-After in the past", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 1, RetryAfter: -time.Hour}, at(10 * time.Second)},
		{"Retry-After makes no attempt more", policy, sluice.Attempt{Outcome: sluice.Failed, Number: 12, RetryAfter: time.Hour}, sluice.Verdict{Dead: sluice.Exhausted}},
		{"the last failure holds the lane if so wished", holding, sluice.Attempt{Outcome: sluice.Failed, Number: 12}, sluice.Verdict{Held: sluice.Exhausted}},
		{"so does what cannot be sent", holding, sluice.Attempt{Outcome: sluice.Refused, Number: 1}, sluice.Verdict{Held: sluice.NotSendable}},
		{"and what is too large", holding, sluice.Attempt{Outcome: sluice.Refused, Dead: sluice.EventTooLarge, Number: 1}, sluice.Verdict{Held: sluice.EventTooLarge}},
		{"another failure does not", holding, sluice.Attempt{Outcome: sluice.Failed, Number: 3}, at(2 * time.Minute)},
		{"nor does a success", holding, sluice.Attempt{Outcome: sluice.Delivered, Number: 12}, sluice.Verdict{Settled: true}},
	} {
		require.Equal(t, c.want, retry.Decide(c.policy, c.attempt, epoch, epoch, 0.5), c.name)
	}
}

func TestVerdict_IsExactlyOneAction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		onDead := rapid.SampledFrom([]sluice.OnDead{"continue", "hold"}).Draw(t, "on_dead")
		p := sluice.Policy{OnDead: onDead, Retry: retries().Draw(t, "retry"), OnGone: rapid.SampledFrom([]sluice.OnGone{"cancel", "retry"}).Draw(t, "on_gone")}
		a := sluice.Attempt{
			Number:     rapid.IntRange(1, 101).Draw(t, "number"),
			Outcome:    rapid.SampledFrom([]sluice.Outcome{"delivered", "failed", "gone", "refused"}).Draw(t, "outcome"),
			RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry-after")),
		}
		v := retry.Decide(p, a, epoch, epoch.Add(time.Hour), rapid.Float64Range(0, 1).Draw(t, "random"))
		n := 0
		for _, set := range []bool{v.Settled, !v.Again.IsZero(), v.Dead != "", v.Held != "", v.Cancel} {
			if set {
				n++
			}
		}
		require.Equal(t, 1, n, "%+v", v)
		require.Equal(t, v.Settled || v.Cancel || v.Dead != "", v.Final())
		require.False(t, !v.Again.IsZero() && v.Again.Before(epoch.Add(time.Hour)))
	})
}

// An event that cannot be delivered any more is a dead letter under any policy.
func TestHold_OnlyRepairableFailuresAreHeld(t *testing.T) { // issue 3, item 1
	t.Parallel()
	held := map[sluice.Reason]bool{sluice.Exhausted: true, sluice.NotSendable: true, sluice.EventTooLarge: true, sluice.FilterError: true, sluice.HandlerRefused: true, sluice.HandlerCrashed: true, sluice.OutputRefused: true}
	for _, reason := range append(sluice.Reasons(), "") {
		require.Equal(t, held[reason], retry.Holds(sluice.Policy{OnDead: sluice.DeadHolds}, reason), reason)
		require.False(t, retry.Holds(sluice.Policy{OnDead: sluice.DeadContinues}, reason), reason)
	}
}

func TestTimetable_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	for _, p := range []sluice.Preset{"standard", "short", "persistent", "stepped"} {
		require.NoError(t, retry.Check(preset(p)))
	}
	step := []sluice.Duration{1e9}
	for name, r := range map[string]sluice.Retry{
		"no preset":             {},
		"an unknown preset":     {Preset: "often"},
		"a preset with steps":   {Preset: "short", Steps: step},
		"a preset with number":  {Preset: "short", MaxAttempts: 3},
		"a preset with jitter":  {Preset: "short", Jitter: 0.1},
		"no steps":              {Preset: "custom", MaxAttempts: 3},
		"too short a step":      {Preset: "custom", Steps: []sluice.Duration{1}},
		"too long a step":       {Preset: "custom", Steps: []sluice.Duration{sluice.Duration(8 * 24 * time.Hour)}},
		"too many steps":        {Preset: "custom", Steps: make([]sluice.Duration, 100)},
		"too many attempts":     {Preset: "custom", Steps: step, MaxAttempts: 101},
		"fewer than no attempt": {Preset: "custom", Steps: step, MaxAttempts: -1},
		"jitter below 0":        {Preset: "custom", Steps: step, Jitter: -0.1},
		"jitter above 1":        {Preset: "custom", Steps: step, Jitter: 1.1},
		"no jitter":             {Preset: "custom", Steps: step, Jitter: math.NaN()},
	} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(retry.Check(r)), name)
	}
}
