package sluice

import (
	"slices"
	"time"
)

// ReplayKind is the kind of a replay.
type ReplayKind string

// The kinds of replays.
const (
	ReplayRange       ReplayKind = "range"        // the events of a range of the log that match the subscription
	ReplayDeadLetters ReplayKind = "dead_letters" // dead letters; they are removed when their events are delivered
	ReplayRetry       ReplayKind = "retry"        // the head of a held lane, in its lane
	ReplayDiscard     ReplayKind = "discard"      // no event: the head of a held lane becomes a dead letter
	ReplayLanes       ReplayKind = "retry_lanes"  // the heads of all parked lanes, in their lanes
	ReplayProbe       ReplayKind = "probe"        // no event: the next probe of an open breaker is due at once
	ReplayProved      ReplayKind = "proved"       // no event: a test succeeded, and counts as a successful probe
)

// ReplayState is the state of a replay.
type ReplayState string

// States of a replay. All but the first are final.
const (
	ReplayRunning   ReplayState = "running"
	ReplayDone      ReplayState = "done"      // every event was settled: delivered, or failed for good
	ReplayCancelled ReplayState = "cancelled" // by a client, or because its subscription ended
)

// Replay delivers a past range of a subscription's events, or its dead letters, again. It runs in
// parallel with live deliveries, in its own lanes, so that live and replayed events each keep their
// order. Requests keep their original webhook-id.
type Replay struct {
	ID           string      `json:"id"`
	Subscription string      `json:"subscription"`
	Namespace    string      `json:"namespace"`
	Kind         ReplayKind  `json:"kind"`
	State        ReplayState `json:"state"`
	Reason       string      `json:"reason,omitempty"` // reason of a cancellation

	// From and To are the first and the last sequence, in the namespace's log or in the dead
	// letters.
	From uint64 `json:"from_seq"`
	To   uint64 `json:"to_seq"`
	// Types are patterns of event types, as in a filter; empty: all.
	Types []string `json:"types,omitempty"`
	// EventIDs restricts a replay to some events; empty: all.
	EventIDs []string `json:"event_ids,omitempty"`
	// Rate limits the replay's requests; zero: the subscription's own rate.
	Rate Rate `json:"rate,omitzero"`

	Next uint64 `json:"next_seq"` // every earlier event is settled or waits in a parked lane
	// Total is the number of events from From to To at the start, before the filter. It is an upper
	// bound.
	Total uint64 `json:"total"`
	Sent  uint64 `json:"delivered"` // delivered events
	Dead  uint64 `json:"dead"`      // events that failed for good
	// Unreadable is an upper bound of the number of sequences before Next that cannot be read
	// because the files of the log are damaged. Sequences whose path is known not to belong to the
	// subscription do not count. Only for ReplayRange.
	Unreadable uint64 `json:"unreadable,omitempty"`

	// Began is the subscription's Began at the start. A replay ends when the subscription moves to
	// another position.
	Began     time.Time  `json:"subscription_began"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	UpdatedAt time.Time  `json:"updated_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Revision  uint64     `json:"revision,omitempty"`
}

// Acts reports whether the replay acts on lanes or on the breaker, instead of delivering in its own
// lanes.
func (r *Replay) Acts() bool { return r.Kind != ReplayRange && r.Kind != ReplayDeadLetters }

// Wants reports whether the replay includes an event that its subscription selects.
func (r *Replay) Wants(ev *Event) bool {
	return (len(r.EventIDs) == 0 || slices.Contains(r.EventIDs, ev.ID)) && (len(r.Types) == 0 || MatchType(r.Types, ev.Type))
}
