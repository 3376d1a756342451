package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// asked is one event whose answer is looked at as a whole: event e at sequence 7 of path /a, of a subscription to all from 1 on.
func asked(change func(*sluice.Subscription), trail model.Trail) explain.Delivery {
	sub := &sluice.Subscription{Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}, From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}}
	if change != nil {
		change(sub)
	}
	if trail.EventID == "" {
		trail.EventID, trail.Seq, trail.Path = "e", 7, "/a"
	}
	return explain.Why(sub, &trail, noon)
}

// Besides the state, an answer has the numbers of the attempt or of the record that it comes from, and when the next attempt is due.
func TestWhy_NumbersOfTheAnswer(t *testing.T) {
	t.Parallel()
	event := &sluice.Event{ID: "e", Seq: 7, Path: "/a", Stored: at(-9)}
	soon, later := at(5), at(10)
	lane := func(from uint64, attempts int, reason sluice.Reason) *sluice.Parked {
		p := &sluice.Parked{Path: "/a", FromSeq: from, EventID: "h", Attempts: attempts, NextAt: soon, LastError: "status 503", Held: reason}
		if reason != "" {
			p.HeldAt = noon
		}
		return p
	}
	head := func(attempts int, reason sluice.Reason) *explain.Head {
		return &explain.Head{EventID: "h", Seq: 5, Attempts: attempts, LastError: "status 503", NextAttemptAt: soon, Held: reason}
	}
	once := []sluice.Attempt{failed("e", 7, 0)} // its number is 2
	probe := failed("e", 7, 0)
	probe.Probe = true
	gone := failed("e", 7, 0)
	gone.Verdict = sluice.Verdict{Cancel: true}
	last := failed("e", 7, 0)
	last.Verdict = sluice.Verdict{Dead: sluice.Exhausted}
	cancelled := func(s *sluice.Subscription) { s.State, s.Reason = sluice.Cancelled, "deleted" }
	tests := []struct {
		name  string
		sub   func(*sluice.Subscription)
		trail model.Trail
		want  explain.Delivery // LastStatus, LastAttemptAt and the error of the last attempt go without saying
		says  string
	}{
		{"the attempt that arrived, not a later one", nil, model.Trail{Attempts: []sluice.Attempt{settled("e", 7, 0), failed("e", 7, 1)}}, explain.Delivery{State: explain.Delivered, AttemptCount: 1, LastStatus: 204, LastAttemptAt: noon}, "Attempt 1 "},
		{"a probe is not counted", nil, model.Trail{Event: event, Attempts: []sluice.Attempt{probe}}, explain.Delivery{State: explain.Retrying, AttemptCount: 1}, "does not count"},
		{"the endpoint is gone", nil, model.Trail{Attempts: []sluice.Attempt{gone}}, explain.Delivery{State: explain.Dead, Reason: "endpoint_gone", AttemptCount: 2}, "returned 410"},
		{"a letter of a range", nil, model.Trail{Dead: &sluice.DeadLetter{Seq: 6, LastSeq: 9, Reason: sluice.Expired, LastError: "too old", At: noon}}, explain.Delivery{State: explain.Dead, Reason: "expired", LastSeq: 9, LastError: "too old"}, "waiting time (too old)."},
		{"a letter that counted more attempts than the log has", nil, model.Trail{Attempts: once, Dead: &sluice.DeadLetter{Attempts: 5, Reason: sluice.Exhausted, LastError: "no route", At: at(1)}}, explain.Delivery{State: explain.Dead, Reason: "exhausted", AttemptCount: 5, LastStatus: 500, LastAttemptAt: noon, LastError: "no route"}, "none of its 5 attempts"},
		{"a letter of before the last attempt, which was the last", nil, model.Trail{Event: event, Attempts: []sluice.Attempt{last}, Dead: &sluice.DeadLetter{Reason: sluice.Loop, At: at(-1)}}, explain.Delivery{State: explain.Dead, Reason: "loop", AttemptCount: 2, LastStatus: 500, LastAttemptAt: noon}, "event loop"},
		{"held as its lane has it", nil, model.Trail{Event: event, Lane: lane(7, 3, sluice.Exhausted), Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Held, Reason: "exhausted", AttemptCount: 3, LastError: "status 503"}, "Held since"},
		{"tried again as its lane has it", nil, model.Trail{Event: event, Lane: lane(7, 3, ""), Attempts: once}, explain.Delivery{State: explain.Retrying, AttemptCount: 3, LastError: "status 503", NextAttemptAt: &soon}, "Attempt 3 failed (status 503)"},
		{"no time but that of its lane is told", nil, model.Trail{Event: event, Attempts: once}, explain.Delivery{State: explain.Retrying, AttemptCount: 2}, "about to be parked"},
		{"held, then released", nil, model.Trail{Event: event, Lane: lane(7, 0, ""), Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &soon}, "held after attempt 2 (status 500), and is retried starting at attempt 1"},
		{"held, then released and tried", nil, model.Trail{Event: event, Lane: lane(7, 1, ""), Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Retrying, AttemptCount: 1, LastError: "status 503", NextAttemptAt: &soon}, "Attempt 1 failed (status 503)"},
		{"held, and its lane's record is not written yet", nil, model.Trail{Event: event, Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Retrying, AttemptCount: 2}, "about to be parked"},
		{"held, and its lane waits for one before", nil, model.Trail{Event: event, Lane: lane(5, 0, ""), Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Retrying, AttemptCount: 2}, "about to be parked"},
		{"behind a head that is tried again", nil, model.Trail{Event: event, Lane: lane(5, 3, "")}, explain.Delivery{State: explain.Waiting, Behind: head(3, ""), NextAttemptAt: &soon}, "waits behind event h (sequence 5), whose attempt 3"},
		{"behind a head that is held", nil, model.Trail{Event: event, Lane: lane(5, 3, sluice.Exhausted)}, explain.Delivery{State: explain.Waiting, Behind: head(3, sluice.Exhausted)}, "has held the lane since"},
		{"behind a head without a name", nil, model.Trail{Event: event, Lane: &sluice.Parked{FromSeq: 5, Attempts: 1, NextAt: later}}, explain.Delivery{State: explain.Waiting, Behind: &explain.Head{Seq: 5, Attempts: 1, NextAttemptAt: later}, NextAttemptAt: &later}, "waits behind sequence 5, whose attempt 1 failed;"},
		{"held in a lane of a cancelled subscription", cancelled, model.Trail{Event: event, Lane: lane(7, 3, sluice.Exhausted), Attempts: []sluice.Attempt{held("e", 7, 0)}}, explain.Delivery{State: explain.Ended, Reason: "deleted", AttemptCount: 2}, "Attempt 2 failed (status 500); then the subscription was cancelled"},
		{"to be tried again in a lane of a cancelled subscription", cancelled, model.Trail{Event: event, Lane: lane(7, 3, ""), Attempts: once}, explain.Delivery{State: explain.Ended, Reason: "deleted", AttemptCount: 2}, "then the subscription was cancelled"},
		{"not tried before the subscription was cancelled", cancelled, model.Trail{Event: event}, explain.Delivery{State: explain.Ended, Reason: "deleted"}, "cancelled (deleted) before it was sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := asked(tt.sub, tt.trail)
			require.Contains(t, got.Explanation, tt.says)
			got.Explanation = ""
			want := tt.want
			want.EventID, want.Seq, want.Path, want.Attempts = "e", 7, "/a", tt.trail.Attempts
			if n := len(tt.trail.Attempts); n > 0 && want.LastAttemptAt.IsZero() {
				want.LastStatus, want.LastAttemptAt = 500, noon
				if want.LastError == "" {
					want.LastError = "status 500"
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// Every reason for which an event is given up has a text of its own, with the cause where there is one.
func TestWhy_EveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	texts := map[string]sluice.Reason{}
	for _, reason := range sluice.Reasons() {
		said := asked(nil, model.Trail{Dead: &sluice.DeadLetter{Reason: reason, At: noon}}).Explanation
		require.NotContains(t, said, "the reason is", reason)
		require.NotContains(t, said, "(", reason)
		require.NotContains(t, said, ": .", reason)
		require.NotContains(t, texts, said, "%s says the same as %s", reason, texts[said])
		texts[said] = reason
	}
}

// Where a subscription begins, and which paths and filters it has, says what it never gets.
func TestWhy_WantedRangeHasBounds(t *testing.T) {
	t.Parallel()
	event := func() *sluice.Event { return &sluice.Event{ID: "e", Seq: 7, Path: "/a", Type: "t", Stored: noon} }
	start := func(s sluice.StartAt) func(*sluice.Subscription) {
		return func(sub *sluice.Subscription) { sub.From = s }
	}
	related := event()
	related.Extensions = map[string]string{sluice.RelatedSubjects: "y z"}
	tests := []struct {
		name   string
		sub    func(*sluice.Subscription)
		trail  model.Trail
		state  explain.State
		reason string
		says   string
	}{
		{"another path", func(s *sluice.Subscription) { s.Pattern = "/b/**" }, model.Trail{Event: event()}, "not_wanted", "pattern", "The pattern /b/** does not match its path."},
		{"no path is known", nil, model.Trail{EventID: "e", Seq: 7, Event: event()}, "not_wanted", "pattern", "does not match its path"},
		{"stored at the start in time", start(sluice.StartAt{Kind: sluice.StartTime, Time: noon}), model.Trail{Event: event()}, "backlog", "", ""},
		{"stored before a time that is not the start", start(sluice.StartAt{Kind: sluice.StartSeq, Seq: 1, Time: at(1)}), model.Trail{Event: event()}, "backlog", "", ""},
		{"stored before the start in time", start(sluice.StartAt{Kind: sluice.StartTime, Time: at(1)}), model.Trail{Event: event()}, "not_wanted", "before_start", "It was published at 2026-11-21T12:00:00Z"},
		{"the sequence of the start", start(sluice.StartAt{Kind: sluice.StartSeq, Seq: 7}), model.Trail{Event: event()}, "backlog", "", ""},
		{"the sequence before the start", start(sluice.StartAt{Kind: sluice.StartSeq, Seq: 8}), model.Trail{Event: event()}, "not_wanted", "before_start", "before the start of the subscription, sequence 8."},
		{"a sequence before the one of another start", start(sluice.StartAt{Kind: sluice.StartTime, Time: noon, Seq: 8}), model.Trail{Event: event()}, "backlog", "", ""},
		{"the last of its path, and none follows", start(sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 10}), model.Trail{Event: event()}, "backlog", "", ""},
		{"the last of its path when it started", start(sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 10}), model.Trail{Event: event(), Later: 10}, "backlog", "", ""},
		{"a later one on its path, and the start is a sequence", start(sluice.StartAt{Kind: sluice.StartSeq, Seq: 7}), model.Trail{Event: event(), Later: 6}, "backlog", "", ""},
		{"another subject, and others", func(s *sluice.Subscription) { s.Filter.Subjects = []string{"x"} }, model.Trail{Event: related}, "not_wanted", "filter", `its subject is "", related to "y z", but the filter requires x`},
		{"a filter that cannot be read", func(s *sluice.Subscription) { s.Filter.CEL = "1 +" }, model.Trail{Event: event()}, "backlog", "", ""},
		{"a filter that fails on it", func(s *sluice.Subscription) { s.Filter.CEL = "1 / 0 == 1" }, model.Trail{Event: event()}, "backlog", "", ""},
		{"the consumer is at it", nil, model.Trail{Event: event(), Handed: 7, Settled: 6}, "in_flight", "", ""},
		{"the consumer is before it", nil, model.Trail{Event: event(), Handed: 6, Settled: 6}, "backlog", "", ""},
		{"it is settled", nil, model.Trail{Event: event(), Handed: 7, Settled: 7}, "not_recorded", "", ""},
		{"not reached by a subscription that is paused", func(s *sluice.Subscription) { s.State = sluice.Paused }, model.Trail{Event: event(), Handed: 6}, "backlog", "paused", "It waits in the log. The subscription is paused: deliveries stop until it is resumed."},
		{"the breaker of a subscription that is paused", func(s *sluice.Subscription) { s.State = sluice.Paused }, model.Trail{Event: event(), Handed: 6, Health: model.Health{Breaker: sluice.BreakerOpen, ProbeAt: at(1), HeldUntil: at(2)}}, "backlog", "paused", "It waits in the log. The subscription is paused: "},
		{"the pause that its endpoint asked for", func(s *sluice.Subscription) { s.State = sluice.Paused }, model.Trail{Event: event(), Handed: 6, Health: model.Health{HeldUntil: at(2)}}, "backlog", "paused", "It waits in the log. The subscription is paused: "},
		{"open, and the pause is longer than the next probe", nil, model.Trail{Event: event(), Health: model.Health{Breaker: sluice.BreakerOpen, ProbeAt: at(1), HeldUntil: at(2)}}, "backlog", "", "the next at 2026-11-21T12:02:00Z."},
		{"open, and the next probe is after the pause", nil, model.Trail{Event: event(), Health: model.Health{Breaker: sluice.BreakerOpen, ProbeAt: at(3), HeldUntil: at(2)}}, "backlog", "", "the next at 2026-11-21T12:03:00Z."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := asked(tt.sub, tt.trail)
			require.Equal(t, []any{tt.state, tt.reason}, []any{d.State, d.Reason}, d.Explanation)
			require.Contains(t, d.Explanation, tt.says)
		})
	}
}
