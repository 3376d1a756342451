package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestAttempts_LogOmitsAbsentFields(t *testing.T) {
	t.Parallel()
	keys := func(a sluice.Attempt) map[string]string {
		all := map[string]string{}
		for _, attr := range attemptAttrs(&a) {
			all[attr.Key] = attr.Value.String()
		}
		return all
	}
	got := keys(sluice.Attempt{EventID: "e", Number: 1, Outcome: sluice.Delivered, Status: 204, Verdict: sluice.Verdict{Settled: true}})
	require.Equal(t, "204", got["status"])
	for _, absent := range []string{"again", "dead", "error"} {
		require.NotContains(t, got, absent)
	}
	again := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got = keys(sluice.Attempt{Error: "connection refused", Verdict: sluice.Verdict{Again: again}})
	require.Equal(t, again.String(), got["again"])
	require.Equal(t, "connection refused", got["error"])
	require.NotContains(t, got, "status")
	require.Equal(t, "exhausted", keys(sluice.Attempt{Verdict: sluice.Verdict{Dead: sluice.Exhausted}})["dead"])
}

// The log and the record of a lane are written one after the other. Wherever crashes come, each number is in the log once, and
// there are as many as the policy says.
func TestAttempts_AreCountedAcrossCrashes(t *testing.T) { // S4-20
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(rt, "attempts")
		policy := sluice.Policy{Retry: sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{1}, MaxAttempts: most}}
		var logged model.Progress
		record := park{ParkedEntry: model.ParkedEntry{Parked: sluice.Parked{FromSeq: 7}}}
		crash := func(where string) bool { return rapid.IntRange(0, 3).Draw(rt, where) == 0 }
		for now := time.Unix(1000, 0); !logged.Settled; now = now.Add(time.Minute) {
			p := record // as it was stored last
			a := sluice.Attempt{Number: p.following(7, logged), Outcome: sluice.Failed, StartedAt: now}
			if !logged.FirstFailed.IsZero() {
				require.Equal(rt, logged.FirstFailed, p.FirstFailedAt)
			}
			a.Verdict = retry.Decide(policy, a, p.FirstFailedAt, now, 0.5)
			if crash("before the log") {
				continue
			}
			require.Equal(rt, logged.Attempts+1, a.Number)
			require.LessOrEqual(rt, a.Number, most)
			logged.Attempts, logged.Settled = a.Number, a.Verdict.Final()
			if logged.FirstFailed.IsZero() {
				logged.FirstFailed = now
			}
			if !crash("before the record") {
				failed(&p.Parked, &a)
				record = p
			}
		}
		require.Equal(rt, most, logged.Attempts)
	})
	p := park{ParkedEntry: model.ParkedEntry{Parked: sluice.Parked{FromSeq: 7, EventID: "e", Attempts: 3, NextAt: time.Unix(1, 0), LastError: "x", Held: sluice.Exhausted}}, upTo: 8, anew: 7}
	p.moveTo(7)
	require.Equal(t, sluice.Parked{FromSeq: 7}, p.Parked)
	require.Equal(t, 1, p.following(7, model.Progress{Attempts: 9, FirstFailed: time.Unix(1, 0)}), "an operator had it tried anew")
	require.Zero(t, p.FirstFailedAt)
	require.Equal(t, 10, p.following(8, model.Progress{Attempts: 9}))
	for seq, ended := range map[uint64]bool{8: false, 9: true} {
		p.moveTo(seq)
		require.Equal(t, ended, p.ended())
	}
}

// A module's handler may become an endpoint, or a program: the permits of its attempts are others then.
func TestServes_OtherKindNeedsAnotherRunner(t *testing.T) {
	t.Parallel()
	requests, programs := &sluice.Subscription{ID: "s", Endpoint: sluice.Endpoint{URL: "https://a.example"}}, &sluice.Subscription{ID: "s", Endpoint: sluice.Endpoint{Exec: []string{"a"}}}
	for _, sub := range []*sluice.Subscription{requests, programs} {
		s := &served{runner: newRunner(sub, Deps{}, Options{}, nil, nil)}
		require.Equal(t, sub == requests, s.serves(requests))
		require.Equal(t, sub == programs, s.serves(programs))
	}
}
