package explain_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// mixed has five attempts, three letters that no attempt shows, and three lanes that are known from their records alone.
func mixed(t *testing.T) *records {
	t.Helper()
	old := func(id string, seq uint64, minutes int, reason sluice.Reason) sluice.Parked {
		return sluice.Parked{EventID: id, FromSeq: seq, Path: "/a", Attempts: 3, FirstFailedAt: at(minutes), NextAt: at(100), Held: reason}
	}
	return &records{
		t: t, first: at(30),
		attempts: []sluice.Attempt{settled("a6", 6, 60), settled("a5", 5, 55), settled("a4", 4, 45), settled("a3", 3, 35), settled("a2", 2, 30)},
		letters:  []sluice.DeadLetter{dead("d9", 9, 0, sluice.FilterError, 50), dead("a3", 3, 1, sluice.Exhausted, 36), dead("d8", 8, 2, sluice.Exhausted, 20), dead("d7", 7, 0, sluice.Malformed, 10)},
		old:      []sluice.Parked{old("l3", 13, 15, ""), old("l1", 11, 40, ""), old("l2", 12, 15, sluice.Exhausted)},
	}
}

// S0-85: deliveries are listed by what last happened to them, newest first; pages of any size have the same ones, each once.
func TestList_PagesEqualTheWholeList(t *testing.T) {
	t.Parallel()
	want := []string{
		"a6 delivered", "a5 delivered", "d9 dead", "a4 delivered", "l1 retrying", "a3 delivered", "a2 delivered", "d8 dead", "l2 held", "l3 retrying", "d7 dead",
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		for _, look := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%d of each page, %d looked at", limit, look), func(t *testing.T) {
				t.Parallel()
				r := mixed(t)
				r.look = look
				var got []string
				for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
					require.LessOrEqual(t, pages, 2*len(want))
					page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: limit}, Cursor: cursor})
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Deliveries), limit)
					got, cursor = append(got, brief(page.Deliveries)...), page.Next
				}
				require.Equal(t, want, got)
			})
		}
	}
}

// The last page says that it is the last: it has no cursor, for any last delivery.
func TestList_LastPageHasNoCursor(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*records{
		"nothing":    {},
		"an attempt": {attempts: []sluice.Attempt{settled("a", 1, 0)}},
		"a letter":   {letters: []sluice.DeadLetter{dead("a", 1, 0, sluice.Malformed, 0)}},
		"a lane":     {old: []sluice.Parked{{EventID: "a", FromSeq: 1, Attempts: 1, FirstFailedAt: noon}}},
	} {
		r.t = t
		page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 1}})
		require.NoError(t, err)
		require.Empty(t, page.Next, name)
		require.NotNil(t, page.Deliveries, "an empty list is no null")
	}
	r := &records{t: t, old: []sluice.Parked{{EventID: "a", FromSeq: 1, Attempts: 1}, {EventID: "b", FromSeq: 2, Attempts: 1}}}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next, "a lane is left")
}

// An event of which the page has several attempts is listed once, by the last of them.
func TestList_LastAttemptCounts(t *testing.T) {
	t.Parallel()
	r := &records{t: t, attempts: []sluice.Attempt{settled("a", 1, 9), failed("a", 1, 5), settled("b", 2, 4), failed("a", 1, 3), failed("b", 2, 1)}}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 5}})
	require.NoError(t, err)
	require.Equal(t, []string{"a delivered", "b delivered"}, brief(page.Deliveries))
}

// An attempt of several events is one row, of the first that is asked for.
func TestList_BatchIsOneRow(t *testing.T) {
	t.Parallel()
	again := failed("a", 1, 5)
	again.Batch = []sluice.EventRef{{EventID: "a", Seq: 1, Path: "/a", Type: "t"}, {EventID: "b", Seq: 2, Path: "/b", Type: "t"}}
	done := settled("a", 1, 9)
	done.Batch = again.Batch
	r := &records{t: t, attempts: []sluice.Attempt{done, again, settled("c", 3, 1)}}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 5}})
	require.NoError(t, err)
	require.Equal(t, []string{"a delivered", "c delivered"}, brief(page.Deliveries))
	require.Equal(t, 2, page.Deliveries[0].Batch)

	page, err = r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 5, Pattern: "/b"}})
	require.NoError(t, err)
	require.Equal(t, []string{"b delivered"}, brief(page.Deliveries))
	require.Equal(t, sluice.Path("/b"), page.Deliveries[0].Path)
}

// A list reads no more of the log of attempts than the page has room for, and stops after ten reads: the next page goes on.
func TestList_ReadsAreBounded(t *testing.T) {
	t.Parallel()
	r := &records{t: t, look: 1}
	for i := range 30 {
		r.attempts = append(r.attempts, settled("a", 1, 30-i))
	}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 3}})
	require.NoError(t, err)
	require.Equal(t, []string{"a delivered"}, brief(page.Deliveries))
	require.Equal(t, []int{3, 2, 2, 2, 2, 2, 2, 2, 2, 2}, r.reads)
	require.NotEmpty(t, page.Next)

	r = mixed(t)
	r.look = 1
	_, err = r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 2}})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, r.reads, "a page that is full needs no more")
}

// Each case is one attempt at event e at sequence 7, and what else is known: how it is listed.
func TestList_StateOfAnAttempt(t *testing.T) {
	t.Parallel()
	later, soon := at(10), at(50)
	lane := func(seq uint64, id string, reason sluice.Reason) []sluice.Parked {
		return []sluice.Parked{{FromSeq: seq, EventID: id, Attempts: 2, NextAt: soon, Held: reason}}
	}
	final := func(v sluice.Verdict) sluice.Attempt {
		a := failed("e", 7, 0)
		a.Verdict = v
		return a
	}
	probe := failed("e", 7, 0)
	probe.Probe = true
	letter := func(attempts int, reason sluice.Reason, minutes int) []sluice.DeadLetter {
		return []sluice.DeadLetter{dead("e", 7, attempts, reason, minutes)}
	}
	tests := []struct {
		name    string
		attempt sluice.Attempt
		lanes   []sluice.Parked
		letters []sluice.DeadLetter
		sub     sluice.State
		reason  string // of the subscription
		want    explain.Delivery
	}{
		{name: "arrived", attempt: settled("e", 7, 0), want: explain.Delivery{State: explain.Delivered, AttemptCount: 1, LastStatus: 204}},
		{name: "arrived, with any lane", attempt: settled("e", 7, 0), lanes: lane(7, "e", sluice.Exhausted), want: explain.Delivery{State: explain.Delivered, AttemptCount: 1, LastStatus: 204}},
		{name: "failed for the last time", attempt: final(sluice.Verdict{Dead: sluice.Exhausted}), letters: letter(2, sluice.Exhausted, 1), want: explain.Delivery{State: explain.Dead, Reason: "exhausted", AttemptCount: 2}},
		{name: "the endpoint is gone", attempt: final(sluice.Verdict{Cancel: true}), want: explain.Delivery{State: explain.Dead, Reason: "endpoint_gone", AttemptCount: 2}},
		{name: "is tried again when its verdict says so", attempt: failed("e", 7, 0), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "is tried again at a time not known yet", attempt: final(sluice.Verdict{}), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2}},
		{name: "a probe does not count", attempt: probe, want: explain.Delivery{State: explain.Retrying, AttemptCount: 1, NextAttemptAt: &later}},
		{name: "its lane knows better when", attempt: failed("e", 7, 0), lanes: lane(7, "e", ""), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &soon}},
		{name: "in its lane, with any letter", attempt: failed("e", 7, 0), lanes: lane(7, "e", ""), letters: letter(2, sluice.Loop, 1), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &soon}},
		{name: "the lane of another event at its place", attempt: failed("e", 7, 0), lanes: lane(7, "x", ""), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "the lane of its id at another place", attempt: failed("e", 7, 0), lanes: lane(6, "e", ""), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "held by its verdict", attempt: held("e", 7, 0), want: explain.Delivery{State: explain.Held, Reason: "exhausted", AttemptCount: 2}},
		{name: "held by its lane", attempt: failed("e", 7, 0), lanes: lane(7, "e", sluice.FilterError), want: explain.Delivery{State: explain.Held, Reason: "filter_error", AttemptCount: 2}},
		{name: "held, then released", attempt: held("e", 7, 0), lanes: lane(7, "e", ""), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &soon}},
		{name: "held, then discarded", attempt: held("e", 7, 0), letters: letter(2, sluice.Exhausted, 1), want: explain.Delivery{State: explain.Dead, Reason: "exhausted", AttemptCount: 2}},
		{name: "held, then released and given up", attempt: held("e", 7, 0), letters: letter(3, sluice.Exhausted, 1), want: explain.Delivery{State: explain.Dead, Reason: "exhausted", AttemptCount: 2}},
		{name: "failed, then part of a loop", attempt: failed("e", 7, 0), letters: letter(2, sluice.Loop, 1), want: explain.Delivery{State: explain.Dead, Reason: "loop", AttemptCount: 2}},
		{name: "a later attempt was the last", attempt: failed("e", 7, 0), letters: letter(3, sluice.Exhausted, 1), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "sent again after it was given up", attempt: failed("e", 7, 0), letters: letter(2, sluice.Exhausted, -1), want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "the letter of another event", attempt: failed("e", 7, 0), letters: []sluice.DeadLetter{dead("x", 6, 2, sluice.Exhausted, 1)}, want: explain.Delivery{State: explain.Retrying, AttemptCount: 2, NextAttemptAt: &later}},
		{name: "failed, then cancelled", attempt: failed("e", 7, 0), sub: sluice.Cancelled, reason: "deleted", want: explain.Delivery{State: explain.Dead, Reason: "deleted", AttemptCount: 2}},
		{name: "held, then cancelled", attempt: held("e", 7, 0), lanes: lane(7, "e", sluice.Exhausted), sub: sluice.Cancelled, reason: "deleted", want: explain.Delivery{State: explain.Dead, Reason: "deleted", AttemptCount: 2}},
		{name: "given up, then cancelled", attempt: held("e", 7, 0), letters: letter(2, sluice.Loop, 1), sub: sluice.Cancelled, reason: "deleted", want: explain.Delivery{State: explain.Dead, Reason: "loop", AttemptCount: 2}},
		{name: "arrived, then cancelled", attempt: settled("e", 7, 0), sub: sluice.Cancelled, want: explain.Delivery{State: explain.Delivered, AttemptCount: 1, LastStatus: 204}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &records{t: t, attempts: []sluice.Attempt{tt.attempt}, lanes: tt.lanes, letters: tt.letters, first: at(-60)}
			sub := &sluice.Subscription{Lifecycle: sluice.Lifecycle{State: tt.sub, Reason: tt.reason}}
			page, err := explain.New(r, nil, explain.Options{}).List(t.Context(), sub, explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9, EventID: "e"}})
			require.NoError(t, err)
			want := tt.want
			want.EventID, want.Seq, want.Path, want.Type, want.LastAttemptAt = "e", 7, "/a", "t", noon
			if want.LastStatus == 0 {
				want.LastStatus, want.LastError = 500, "status 500"
			}
			require.Equal(t, []explain.Delivery{want}, page.Deliveries)
		})
	}
}

// A delivery is listed once: by its dead letter if no attempt can say what became of it, otherwise by its attempt.
func TestList_LettersThatNoAttemptShows(t *testing.T) {
	t.Parallel()
	event := &sluice.Event{Type: "t"}
	tests := []struct {
		name   string
		letter sluice.DeadLetter
		first  time.Time
		tried  bool // once, and the attempt is in the log
		want   explain.Delivery
	}{
		{name: "never sent", letter: sluice.DeadLetter{Seq: 7, Event: event, Reason: sluice.FilterError, At: at(5)}, first: noon, want: explain.Delivery{Seq: 7, Type: "t", Reason: "filter_error"}},
		{name: "a range that was lost", letter: sluice.DeadLetter{Seq: 7, LastSeq: 9, Reason: sluice.Unreadable, At: at(5)}, first: noon, want: explain.Delivery{Seq: 7, LastSeq: 9, Reason: "unreadable"}},
		{name: "its attempts are forgotten", letter: sluice.DeadLetter{Seq: 7, Attempts: 3, LastError: "status 500", Reason: sluice.Exhausted, At: at(-1)}, first: noon, want: explain.Delivery{Seq: 7, AttemptCount: 3, LastError: "status 500", Reason: "exhausted"}},
		{name: "all attempts are forgotten", letter: sluice.DeadLetter{Seq: 7, Attempts: 3, Reason: sluice.Exhausted, At: at(5)}, want: explain.Delivery{Seq: 7, AttemptCount: 3, Reason: "exhausted"}},
		{name: "left the log after an attempt", letter: sluice.DeadLetter{EventID: "e", Seq: 7, Attempts: 2, Reason: sluice.Expired, At: at(5)}, first: noon, tried: true, want: explain.Delivery{EventID: "e", Seq: 7, AttemptCount: 2, Reason: "expired"}},
		{name: "the filter failed after an attempt", letter: sluice.DeadLetter{EventID: "e", Seq: 7, Reason: sluice.FilterError, At: at(5)}, first: noon, tried: true, want: explain.Delivery{EventID: "e", Seq: 7, Reason: "filter_error"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &records{t: t, letters: []sluice.DeadLetter{tt.letter}, first: tt.first}
			if tt.tried {
				r.attempts = []sluice.Attempt{failed("e", 7, 0)}
			}
			page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}})
			require.NoError(t, err)
			tt.want.State = explain.Dead
			require.Equal(t, []explain.Delivery{tt.want}, page.Deliveries)
		})
	}
	r := &records{t: t, letters: []sluice.DeadLetter{dead("e", 7, 2, sluice.Exhausted, 0)}, first: noon}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}})
	require.NoError(t, err)
	require.Empty(t, page.Deliveries, "an attempt of that time shows it, on this page or another")
}

// A lane whose head's attempts are forgotten is listed as its record says.
func TestList_LanesWithoutStoredAttempts(t *testing.T) {
	t.Parallel()
	soon := at(5)
	r := &records{t: t, old: []sluice.Parked{
		{EventID: "e", FromSeq: 7, Path: "/a", Attempts: 3, LastError: "status 500", FirstFailedAt: noon, NextAt: soon},
		{EventID: "f", FromSeq: 8, Path: "/b", Attempts: 4, LastError: "status 501", FirstFailedAt: at(-1), Held: sluice.Exhausted},
	}}
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}})
	require.NoError(t, err)
	require.Equal(t, []explain.Delivery{
		{EventID: "e", Seq: 7, Path: "/a", State: explain.Retrying, AttemptCount: 3, LastError: "status 500", NextAttemptAt: &soon},
		{EventID: "f", Seq: 8, Path: "/b", State: explain.Held, Reason: "exhausted", AttemptCount: 4, LastError: "status 501"},
	}, page.Deliveries)
	page, err = r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9, Pattern: "/b"}})
	require.NoError(t, err)
	require.Equal(t, []string{"f held"}, brief(page.Deliveries), "the query is theirs too")
}

// S0-85: a list of some states has these only, and does not fail because of a source that has none of them.
func TestList_StatesThatAreAskedFor(t *testing.T) {
	t.Parallel()
	broken := errors.New("unreachable")
	for _, tt := range []struct {
		states []explain.State
		fails  string // what need not be read for it
		want   []string
	}{
		{[]explain.State{explain.Delivered}, "FirstAttemptAt", []string{"a6 delivered"}},
		{[]explain.State{explain.Delivered}, "Forgotten", []string{"a6 delivered"}},
		{[]explain.State{explain.Retrying}, "FirstAttemptAt", []string{"a5 retrying", "l1 retrying"}},
		{[]explain.State{explain.Held}, "FirstAttemptAt", []string{"a4 held", "l2 held"}},
		{[]explain.State{explain.Dead}, "Forgotten", []string{"d9 dead"}},
		{[]explain.State{explain.Retrying, explain.Held}, "", []string{"a5 retrying", "a4 held", "l1 retrying", "l2 held"}},
		{[]explain.State{explain.Held, explain.Dead}, "", []string{"d9 dead", "a4 held", "l2 held"}},
	} {
		r := &records{
			t: t, fails: map[string]error{tt.fails: broken},
			attempts: []sluice.Attempt{settled("a6", 6, 60), failed("a5", 5, 45), held("a4", 4, 40)},
			letters:  []sluice.DeadLetter{dead("d9", 9, 0, sluice.FilterError, 50)},
			old:      []sluice.Parked{{EventID: "l1", FromSeq: 11, FirstFailedAt: at(20)}, {EventID: "l2", FromSeq: 12, HeldAt: at(10), Held: sluice.FilterError}},
		}
		page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}, States: tt.states})
		require.NoError(t, err, "%s", tt.states)
		require.Equal(t, tt.want, brief(page.Deliveries), "%s", tt.states)
		require.Empty(t, page.Next)
	}
}

// A list of which a part cannot be read is refused: it is not shorter.
func TestList_RefusedIfASourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("unreachable")
	for _, source := range []string{"Attempts", "LetterHistory", "FirstAttemptAt", "ParkedLanes", "Forgotten"} {
		r := mixed(t)
		r.fails = map[string]error{source: broken}
		page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}})
		require.ErrorIs(t, err, broken, source)
		require.Empty(t, page, source)
	}
	r := &records{t: t, attempts: []sluice.Attempt{failed("e", 7, 0)}, fails: map[string]error{"LetterHistory": broken}}
	_, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}, States: []explain.State{explain.Retrying}})
	require.ErrorIs(t, err, broken, "whether an attempt is repeated depends on the letters")
}

// A cursor of another list, or one that was changed, is refused.
func TestList_CursorsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"x", "1", "1.2", "1.2.-3", "-1.2.3", "1.2.3x", "01.2.3", " 1.2.3", "1.2.3.4", "1.2.99999999999999999999"} {
		_, err := mixed(t).list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}, Cursor: cursor})
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), cursor)
	}
	r := mixed(t)
	page, err := r.list(explain.Query{HistoryQuery: model.HistoryQuery{Limit: 9}, Cursor: "1.1.9"})
	require.NoError(t, err, "lanes that went meanwhile are no reason")
	require.Empty(t, page.Deliveries)
	require.Empty(t, r.reads, "the log of attempts was read to its end before")
}
