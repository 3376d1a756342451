package sluice

import (
	"time"
)

// HistoryQuery chooses attempts or dead letters of a subscription. Zero values choose all.
type HistoryQuery struct {
	EventID string
	Seq     uint64 // of the event
	Pattern Pattern
	Types   []string  // exact, or a prefix that ends in ".*"
	Since   time.Time // not before
	Until   time.Time // not after
	After   uint64    // events after this sequence
	Before  uint64    // the place of the last one of the page before
	Limit   int       // required
}

// Wants reports whether the query chooses an event with these properties that something
// happened to at the time. What has no path is chosen by no pattern but "/**".
func (q *HistoryQuery) Wants(id string, seq uint64, path Path, kind string, at time.Time) bool {
	return (q.EventID == "" || id == q.EventID) && (q.Seq == 0 || seq == q.Seq) && seq > q.After &&
		!at.Before(q.Since) && (q.Until.IsZero() || !at.After(q.Until)) &&
		(q.Pattern == "" || q.Pattern == "/**" || q.Pattern.Match(path)) &&
		(len(q.Types) == 0 || MatchType(q.Types, kind))
}

// Placed is a record with its place in its stream.
type Placed[T any] struct {
	Value T
	Place uint64
}

// Trail is what is known of one event on its way to one subscription.
type Trail struct {
	EventID  string // empty if nobody knows it
	Seq      uint64 // 0: nobody knows it
	Path     Path   // empty if nobody knows it
	Type     string
	Event    *Event      // nil: the log does not have it any more
	Attempts []Attempt   // oldest first
	Dead     *DeadLetter // in which it was given up, by itself or with others; nil: it was not
	Lane     *Parked     // the parked lane that it belongs to; nil: the lane is not parked
	Handed   uint64      // the last sequence that the event's consumer handed out
	Settled  uint64      // up to here all that was handed out is settled or parked
	Later    uint64      // the next event of its path, where the subscription starts with the last of each
	FirstSeq uint64      // what the log still holds
	Health   Health      // of the endpoint, as the replica that serves the subscription remembers it
}

// WindowQuery chooses events of a subscription's replay window.
type WindowQuery struct {
	After  string            // a cursor; "" and "-1": all of the window
	Types  []string          // exact, or a prefix that ends in ".*"
	Limit  int               // 100; at most 1000
	Wanted func(*Event) bool // whether the subscription's filter lets an event through
}

// WindowPage is a part of a replay window.
type WindowPage struct {
	Events []Event
	Next   uint64 // everything up to here was looked at; for After
	More   bool   // there may be more behind it now
}

// HasType reports whether the query chooses events of the type.
func (q *WindowQuery) HasType(kind string) bool { return len(q.Types) == 0 || MatchType(q.Types, kind) }
