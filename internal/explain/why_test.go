package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Each case is what the trail of event e at sequence 7 of path /a says about it.
func TestAnswer_IsTheFirstCertainReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	event := &sluice.Event{ID: "e", Seq: 7, Path: "/a", Type: "t", Stored: now.Add(-time.Minute)}
	lane := func(from uint64, attempts int) *sluice.Parked {
		return &sluice.Parked{Path: "/a", FromSeq: from, EventID: "h", Attempts: attempts, NextAt: later, LastError: "status 500"}
	}
	debounced := func(s *sluice.Subscription) { s.Policy.Debounce.Quiet = sluice.Duration(time.Second) }
	inBatch := func(from, to uint64) *sluice.Parked {
		return &sluice.Parked{FromSeq: from, BatchTo: to, EventID: "h", Attempts: 2, NextAt: later, LastError: "status 500"}
	}
	failed := []sluice.Attempt{{EventID: "e", Seq: 7, Number: 1, StartedAt: now.Add(-time.Minute), Error: "status 500", Verdict: sluice.Verdict{Again: later}}}
	down := model.Health{Breaker: sluice.BreakerOpen, ProbeAt: later}
	holding := func(from uint64) *sluice.Parked {
		return &sluice.Parked{Path: "/a", FromSeq: from, EventID: "h", Attempts: 3, LastError: "status 500", Held: sluice.Exhausted, HeldAt: now}
	}
	gaveUp := []sluice.Attempt{{EventID: "e", Seq: 7, Number: 3, StartedAt: now, Error: "status 500", Verdict: sluice.Verdict{Held: sluice.Exhausted}}}
	letter := func(reason sluice.Reason) *sluice.DeadLetter {
		return &sluice.DeadLetter{Seq: 7, Reason: reason, LastError: "because.", At: now}
	}
	tests := []struct {
		name   string
		sub    func(*sluice.Subscription)
		trail  model.Trail
		state  explain.State
		reason string
		want   string
	}{
		{"a success counts, with anything after it", nil, model.Trail{Event: event, Dead: letter(sluice.Exhausted), Attempts: []sluice.Attempt{{Number: 2, Status: 204, StartedAt: now, Verdict: sluice.Verdict{Settled: true}}, failed[0]}}, "delivered", "", "Attempt 2 at 2026-11-21T12:00:00Z got status 204."},
		{"left the log before its second attempt", nil, model.Trail{Attempts: failed, Dead: letter(sluice.Expired)}, "dead", "expired", "it left the log before it could be sent; the namespace's retention is shorter than its waiting time (because)."},
		{"in a batch", nil, model.Trail{Event: event, Attempts: []sluice.Attempt{{Number: 1, Status: 204, StartedAt: now, Batch: make([]sluice.EventRef, 40), Verdict: sluice.Verdict{Settled: true}}}}, "delivered", "", "Attempt 1 at 2026-11-21T12:00:00Z got status 204, for a batch of 40 events."},
		{"in a batch that is sent again", nil, model.Trail{Event: event, Lane: inBatch(5, 9), Attempts: failed}, "retrying", "", "Attempt 2 failed (status 500); the next attempt is due at 2026-11-21T13:00:00Z."},
		{"behind a batch", nil, model.Trail{Event: event, Lane: inBatch(5, 6)}, "waiting", "", "It waits behind event h"},
		{"in the range of a batch, without an attempt", nil, model.Trail{Event: event, Lane: inBatch(5, 9)}, "waiting", "", "It waits behind event h"},
		{"gathering", func(s *sluice.Subscription) { s.Policy.Batch = sluice.Batch{Max: 9, Wait: 1} }, model.Trail{Event: event, Handed: 9, Settled: 6}, "in_flight", "", "an attempt is in flight, for it or for an earlier event, or it waits for more events of its batch."},
		{"its path is not quiet", debounced, model.Trail{Event: event, Lane: lane(5, 0)}, "waiting", "", "Its path is not quiet yet: the latest event of the path is sent at 2026-11-21T13:00:00Z or later (policy.debounce)."},
		{"superseded", debounced, model.Trail{Event: event, SupersededBy: &sluice.EventRef{EventID: "n", Seq: 8}, Handed: 9, Settled: 9}, "superseded", "", "Event n (sequence 8), the latest on its path, was sent in its place (policy.debounce)."},
		{"the latest of its path, without a record", debounced, model.Trail{Event: event, Handed: 9, Settled: 9}, "not_recorded", "", "It was processed without"},
		{"cannot be sent", nil, model.Trail{Event: event, Dead: letter(sluice.NotSendable)}, "dead", "refused", "the request cannot be created"},
		{"is no event", nil, model.Trail{Event: event, Dead: letter(sluice.Malformed)}, "dead", "invalid", "the published event is unreadable"},
		{"a reason of a later version", nil, model.Trail{Event: event, Dead: letter("of_tomorrow")}, "dead", "of_tomorrow", "the reason is of_tomorrow (because)"},
		{"the letter is gone, the attempt says it", nil, model.Trail{Event: event, Attempts: []sluice.Attempt{{Number: 3, Verdict: sluice.Verdict{Dead: sluice.Exhausted}}}}, "dead", "exhausted", "none of its 3 attempts succeeded"},
		{"sent again after it was given up", nil, model.Trail{Event: event, Lane: lane(7, 1), Attempts: failed, Dead: &sluice.DeadLetter{Reason: sluice.Exhausted, At: now.Add(-time.Hour)}}, "retrying", "", "the next attempt is due at 2026-11-21T13:00:00Z."},
		{"due", nil, model.Trail{Event: event, Lane: &sluice.Parked{FromSeq: 7, Attempts: 2, NextAt: now}}, "retrying", "", "Attempt 2 failed; the next attempt is due now."},
		{"between the attempt and its lane's record", nil, model.Trail{Event: event, Attempts: failed}, "retrying", "", "its lane is about to be parked"},
		{"failed, then cancelled", func(s *sluice.Subscription) { s.State, s.Reason = sluice.Cancelled, "endpoint_gone" }, model.Trail{Event: event, Attempts: failed}, "ended", "endpoint_gone", "then the subscription was cancelled"},
		{"gone without a trace", nil, model.Trail{FirstSeq: 9}, "not_kept", "", "it starts at sequence 9"},
		{"before a start in time", func(s *sluice.Subscription) { s.From = sluice.StartAt{Kind: sluice.StartTime, Time: now} }, model.Trail{Event: event}, "not_wanted", "before_start", "starts with events from 2026-11-21T12:00:00Z on"},
		{"not the last of its path", func(s *sluice.Subscription) { s.From = sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 10} }, model.Trail{Event: event, Later: 9}, "not_wanted", "before_start", "that one is at sequence 9"},
		{"the last of its path", func(s *sluice.Subscription) { s.From = sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 10} }, model.Trail{Event: event, Later: 12}, "backlog", "", "its consumer is at sequence 0"},
		{"another source", func(s *sluice.Subscription) { s.Filter.Sources = []string{"/x"} }, model.Trail{Event: event}, "not_wanted", "filter", `its source is "", but the filter requires /x`},
		{"another subject", func(s *sluice.Subscription) { s.Filter.Subjects = []string{"x"} }, model.Trail{Event: event}, "not_wanted", "filter", `its subject is ""`},
		{"other labels", func(s *sluice.Subscription) { s.Filter.Labels = map[string][]string{"l": {"x"}} }, model.Trail{Event: event}, "not_wanted", "filter", "its labels do not match the filter"},
		{"behind a head", nil, model.Trail{Event: event, Lane: lane(5, 2)}, "waiting", "", "It waits behind event h (sequence 5), whose attempt 2 failed (status 500); the next attempt is due at 2026-11-21T13:00:00Z."},
		{"holds its lane", nil, model.Trail{Event: event, Lane: holding(7), Attempts: gaveUp, Dead: letter(sluice.Exhausted)}, "held", "exhausted", "Held since 2026-11-21T12:00:00Z: none of its 3 attempts succeeded (status 500). Its lane waits: retry or discard it."},
		{"behind one that holds the lane", nil, model.Trail{Event: event, Lane: holding(5)}, "waiting", "", "It waits behind event h (sequence 5), which has held the lane since 2026-11-21T12:00:00Z (status 500): retry or discard that event."},
		{"was held and is tried again", nil, model.Trail{Event: event, Lane: &sluice.Parked{FromSeq: 7, EventID: "e", NextAt: now}, Attempts: gaveUp}, "retrying", "", "is retried starting at attempt 1; the next attempt is due now."},
		{"was held and discarded", nil, model.Trail{Event: event, Attempts: gaveUp, Dead: letter(sluice.Exhausted)}, "dead", "exhausted", "none of its 3 attempts succeeded (because)."},
		{"a lane that is caught up", nil, model.Trail{Event: event, Lane: lane(5, 0)}, "waiting", "", "is being sent again, from event h (sequence 5) on"},
		{"a lane that was set aside", nil, model.Trail{Event: event, Lane: lane(7, 0)}, "waiting", "", "which was set aside in favour of other lanes"},
		{"a lane that has passed it", nil, model.Trail{Event: event, Lane: lane(8, 1), Handed: 9, Settled: 9}, "not_recorded", "", "It was processed without a recorded attempt"},
		{"under way", nil, model.Trail{Event: event, Handed: 9, Settled: 6}, "in_flight", "", "an attempt is in flight"},
		{"under way, and bounded", func(s *sluice.Subscription) { s.Policy.Rate.PerMinute = 60 }, model.Trail{Event: event, Handed: 9, Settled: 6}, "in_flight", "", "or they wait for the subscription's rate."},
		{"handed out, and the endpoint is down", nil, model.Trail{Event: event, Handed: 9, Settled: 6, Health: down}, "backlog", "endpoint", "It was fetched and waits in its lane. The endpoint is down (the breaker is open): only probes are sent, the next at 2026-11-21T13:00:00Z."},
		{"handed out, and the endpoint asked for peace", nil, model.Trail{Event: event, Handed: 9, Settled: 6, Health: model.Health{HeldUntil: later}}, "backlog", "endpoint", "The endpoint requested a pause until 2026-11-21T13:00:00Z."},
		{"it asked for peace that is over", nil, model.Trail{Event: event, Handed: 9, Settled: 6, Health: model.Health{HeldUntil: now}}, "in_flight", "", "an attempt is in flight"},
		{"due while the endpoint is down", nil, model.Trail{Event: event, Lane: &sluice.Parked{FromSeq: 7, Attempts: 2, NextAt: now}, Health: down}, "retrying", "", "is due now. The endpoint is down"},
		{"not reached while the endpoint is down", nil, model.Trail{Event: event, Handed: 6, Settled: 5, Health: down}, "backlog", "", "its consumer is at sequence 6. The endpoint is down"},
		{"a probe", nil, model.Trail{Event: event, Handed: 9, Settled: 6, Health: down, Attempts: []sluice.Attempt{{EventID: "e", Seq: 7, Number: 1, Probe: true, Error: "status 503", Verdict: sluice.Verdict{Again: later}}}}, "retrying", "", "It was sent as a probe of the endpoint, which failed (status 503) and does not count; it will be sent again in its lane's order. The endpoint is down"},
		{"under way when it was disabled", func(s *sluice.Subscription) { s.State, s.Reason = sluice.Disabled, "it failed" }, model.Trail{Event: event, Handed: 9, Settled: 6}, "backlog", "disabled", "The subscription is disabled (it failed): deliveries stop until it is resumed."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sub := &sluice.Subscription{Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}, From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}}
			if tt.sub != nil {
				tt.sub(sub)
			}
			trail := tt.trail
			trail.EventID, trail.Seq, trail.Path = "e", 7, "/a"
			d := explain.Why(sub, &trail, now)
			require.Equal(t, []any{tt.state, tt.reason}, []any{d.State, d.Reason}, d.Explanation)
			require.Contains(t, d.Explanation, tt.want)
		})
	}
}
