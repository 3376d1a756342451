package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// HistoryQuery filters attempts or dead letters of a subscription. Zero values match all.
type HistoryQuery struct {
	EventID string
	Seq     uint64 // sequence of the event
	Pattern sluice.Pattern
	Types   []string  // exact, or a prefix followed by ".*"
	Since   time.Time // not before
	Until   time.Time // not after
	After   uint64    // events after this sequence
	Before  uint64    // position of the last element of the previous page
	Limit   int       // required
}

// Wants reports whether the query matches a record of an event with these properties at the given
// time. Without a path, only the pattern "/**" matches.
func (q *HistoryQuery) Wants(id string, seq uint64, path sluice.Path, kind string, at time.Time) bool {
	return (q.EventID == "" || id == q.EventID) && (q.Seq == 0 || seq == q.Seq) && seq > q.After &&
		!at.Before(q.Since) && (q.Until.IsZero() || !at.After(q.Until)) &&
		(q.Pattern == "" || q.Pattern == "/**" || q.Pattern.Match(path)) &&
		(len(q.Types) == 0 || sluice.MatchType(q.Types, kind))
}

// WantsAttempt reports whether the query matches one of an attempt's events.
func (q *HistoryQuery) WantsAttempt(a *sluice.Attempt) bool {
	for one := range a.Events() {
		if q.Wants(one.EventID, one.Seq, one.Path, one.Type, a.StartedAt) {
			return true
		}
	}
	return false
}

// Placed is a record with its position in its stream.
type Placed[T any] struct {
	Value T
	Place uint64
}

// Trail is the delivery history of one event and subscription.
type Trail struct {
	EventID  string      // empty if unknown
	Seq      uint64      // 0: unknown
	Path     sluice.Path // empty if unknown
	Type     string
	Event    *sluice.Event      // nil: no longer in the log
	Attempts []sluice.Attempt   // oldest first
	Dead     *sluice.DeadLetter // dead letter of the event, alone or in a range; nil: none
	Lane     *sluice.Parked     // its parked lane; nil: the lane is not parked
	Handed   uint64             // the last sequence that the event's consumer fetched
	Settled  uint64             // every fetched event up to here is settled or parked
	// Later is the sequence of the next event on its path, for a subscription that starts with the
	// latest event on each path.
	Later    uint64
	FirstSeq uint64 // the first sequence in the log

	SupersededBy *sluice.EventRef // the later event on its path that was sent in its place; nil: none

	Health Health // state of the endpoint, as known to the replica that serves the subscription
}

// WindowQuery selects events of a subscription's replay window.
type WindowQuery struct {
	After  string                   // a cursor; "" and "-1": the whole window
	Types  []string                 // exact, or a prefix followed by ".*"
	Limit  int                      // default 100; at most 1000
	Wanted func(*sluice.Event) bool // whether the subscription's filter matches an event
}

// WindowPage is a part of a replay window.
type WindowPage struct {
	Events []sluice.Event
	Next   uint64 // every sequence up to here was examined; pass as After
	More   bool   // more events may follow
}

// HasType reports whether the query matches events of the type.
func (q *WindowQuery) HasType(kind string) bool {
	return len(q.Types) == 0 || sluice.MatchType(q.Types, kind)
}
