package explain_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at returns a time so many minutes after noon.
func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// records is a history in memory, whose pages are short where look is set: it is how many records one read looks at.
type records struct {
	t *testing.T

	attempts []sluice.Attempt    // newest first
	letters  []sluice.DeadLetter // newest first
	first    time.Time           // of the log of attempts
	lanes    []sluice.Parked
	old      []sluice.Parked // lanes of whose heads there is no attempt
	trail    model.Trail
	look     int

	fails map[string]error // by method
	reads []int            // the limits of what was read of the log of attempts
}

var _ explain.History = (*records)(nil)

// paged returns what a query matches, newest first, and the place to go on at, 0 if that was all. The oldest record is at place 1.
func paged[T any](r *records, all []T, q model.HistoryQuery, wanted func(*T) bool) (page []model.Placed[T], next uint64) {
	require.Positive(r.t, q.Limit, "a limit is required")
	looked := 0
	for i := range all {
		place := uint64(len(all) - i)
		if q.Before > 0 && place >= q.Before {
			continue
		}
		if len(page) == q.Limit || r.look > 0 && looked == r.look {
			return page, place + 1
		}
		if looked++; wanted(&all[i]) {
			page = append(page, model.Placed[T]{Value: all[i], Place: place})
		}
	}
	return page, 0
}

func (r *records) Attempts(_ context.Context, _ *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.Attempt], uint64, error) {
	r.reads = append(r.reads, q.Limit)
	page, next := paged(r, r.attempts, q, func(a *sluice.Attempt) bool { return q.WantsAttempt(a) })
	return page, next, r.fails["Attempts"]
}

func (r *records) LetterHistory(_ context.Context, _ *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.DeadLetter], uint64, error) {
	page, next := paged(r, r.letters, q, func(d *sluice.DeadLetter) bool { return q.Wants(d.EventID, d.Seq, d.Path, "", d.At) })
	return page, next, r.fails["LetterHistory"]
}

func (r *records) FirstAttemptAt(context.Context, *sluice.Subscription) (time.Time, error) {
	return r.first, r.fails["FirstAttemptAt"]
}

func (r *records) ParkedLanes(context.Context, *sluice.Subscription) ([]sluice.Parked, error) {
	return r.lanes, r.fails["ParkedLanes"]
}

func (r *records) Forgotten(context.Context, *sluice.Subscription, []sluice.Parked) ([]sluice.Parked, error) {
	return r.old, r.fails["Forgotten"]
}

func (r *records) Trail(context.Context, *sluice.Subscription, string) (model.Trail, error) {
	return r.trail, r.fails["Trail"]
}

// list returns a page of the records of a subscription.
func (r *records) list(q explain.Query) (explain.Page, error) {
	return explain.New(r, nil, explain.Options{}).List(r.t.Context(), &sluice.Subscription{Lifecycle: sluice.Lifecycle{State: sluice.Active}}, q)
}

// brief writes deliveries down as "event state".
func brief(all []explain.Delivery) []string {
	out := []string{}
	for i := range all {
		out = append(out, all[i].EventID+" "+string(all[i].State))
	}
	return out
}

// Settled and failed attempts at an event, so many minutes after noon.
func settled(id string, seq uint64, minutes int) sluice.Attempt {
	return sluice.Attempt{EventID: id, Seq: seq, Number: 1, Path: "/a", Type: "t", StartedAt: at(minutes), Status: 204, Verdict: sluice.Verdict{Settled: true}}
}

func failed(id string, seq uint64, minutes int) sluice.Attempt {
	return sluice.Attempt{
		EventID: id, Seq: seq, Number: 2, Path: "/a", Type: "t", StartedAt: at(minutes), Status: 500, Error: "status 500",
		Verdict: sluice.Verdict{Again: at(minutes + 10)},
	}
}

func held(id string, seq uint64, minutes int) sluice.Attempt {
	a := failed(id, seq, minutes)
	a.Verdict = sluice.Verdict{Held: sluice.Exhausted}
	return a
}

// dead is the letter of an event after so many attempts.
func dead(id string, seq uint64, attempts int, reason sluice.Reason, minutes int) sluice.DeadLetter {
	return sluice.DeadLetter{EventID: id, Seq: seq, Path: "/a", Attempts: attempts, Reason: reason, LastError: "status 500", At: at(minutes)}
}
