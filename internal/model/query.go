package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// EventQuery selects events of a log. Zero values select all stored events.
type EventQuery struct {
	Pattern sluice.Pattern
	Types   []string                 // exact, or a prefix followed by ".*"; any of them
	Since   string                   // a cursor (exclusive), or a time (inclusive)
	Until   string                   // a cursor (inclusive)
	After   uint64                   // Next of the previous page; takes precedence over Since
	Limit   int                      // default: 100; at most 1000
	Visible func(*sluice.Event) bool // other events are left out as if they did not exist
}

// TailQuery selects attempts in the order of their recording.
type TailQuery struct {
	Namespace    string
	Subscription string // empty: all of the namespace
	After        uint64 // attempts after this place
	Limit        int
	Wait         time.Duration // how long to wait if there is none; 0: not at all
}

// EventPage is a page of a log. A page that is not full may have a next one.
type EventPage struct {
	Events []sluice.Event
	Next   uint64 // value for After; 0: last page

	After, UpTo uint64       // the examined sequences: above After, up to UpTo
	Gaps        []sluice.Gap // parts of the examined range that are lost to damage
}

// ChangeQuery selects changes of a namespace. Zero values select all that are stored.
type ChangeQuery struct {
	Since   uint64                   // changes after this sequence
	Limit   int                      // default: 100; at most 1000
	Brief   bool                     // omit the tags of a page without changes, which saves a read
	Visible func(*sluice.Event) bool // other events are left out as if they did not exist; nil: none are
	// Erased returns the paths on which the caller may know the ids of erased events with a label
	// ("": without one), or true for every path. A nil Erased stands for every path.
	Erased func(label string) (paths []sluice.Path, every bool)
}

// MirrorPage is a part of the entries of a mirror.
type MirrorPage struct {
	Items []sluice.MirroredItem
	Next  uint64 // cursor of the next page
	More  bool   // there is one
}

// StateQuery selects paths of a snapshot. Zero values select all paths with events, at the latest
// sequence.
type StateQuery struct {
	Pattern sluice.Pattern
	Path    sluice.Path              // only this path; takes precedence over Pattern
	At      uint64                   // sequence of the snapshot
	After   uint64                   // Next of the previous page, with At set to its Seq
	Limit   int                      // default: 100; at most 1000
	Visible func(*sluice.Event) bool // paths whose latest event is not selected are left out
}

// StatePage is a page of a snapshot, in the order of the last messages of its paths. A page that is
// not full may have a next one.
type StatePage struct {
	Seq    uint64 // sequence of the snapshot
	Events []sluice.Event
	Next   uint64 // value for After; 0: last page

	First uint64       // sequence at which the log begins
	Gaps  []sluice.Gap // parts of the log up to Seq that are lost to damage, so a path may show an earlier event, or none
}

// LedgerQuery filters entries of the ledger. Zero values match all.
type LedgerQuery struct {
	Namespace string
	Resource  string
	Action    string // exact, or a prefix followed by ".*"
	Actor     string
	Since     time.Time // earliest
	Until     time.Time // latest
	Before    uint64    // the position that the previous page returned
	Limit     int
}

// DeadLetterQuery filters dead letters. Zero values match all.
type DeadLetterQuery struct {
	Reason  sluice.Reason
	Pattern sluice.Pattern // of the event's path; dead letters without a path match none
	Since   time.Time      // earliest time of failure
	Before  uint64         // the position that the previous page returned
	Limit   int
}

// Redrivable describes the redrive of all dead letters of a subscription.
type Redrivable struct {
	Last uint64 // position of the last dead letter of all subscriptions
	Can  int    // dead letters with a sendable event
	Not  int    // dead letters with an unknown or unreadable event
}

// Wants reports whether resource, actor and times match an entry.
func (q *LedgerQuery) Wants(e *sluice.LedgerEntry) bool {
	return (q.Resource == "" || e.Resource == q.Resource) && (q.Actor == "" || e.Actor == q.Actor) &&
		!e.At.Before(q.Since) && (q.Until.IsZero() || !e.At.After(q.Until))
}

// Wants reports whether reason, path and time match a dead letter.
func (q *DeadLetterQuery) Wants(d *sluice.DeadLetter) bool {
	return (q.Reason == "" || d.Reason == q.Reason) && !d.At.Before(q.Since) &&
		(q.Pattern == "" || d.Path != "" && q.Pattern.Match(d.Path))
}
