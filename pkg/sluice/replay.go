package sluice

import (
	"slices"
	"time"
)

// ReplayKind says what a replay delivers again.
type ReplayKind string

// What a replay delivers again.
const (
	ReplayRange       ReplayKind = "range"        // the events of a range of the log that the subscription wants
	ReplayDeadLetters ReplayKind = "dead_letters" // events that were given up; those that arrive are dead letters no more
	ReplayRetry       ReplayKind = "retry"        // the head of a held lane, in its lane
	ReplayDiscard     ReplayKind = "discard"      // nothing: the head of a held lane becomes a dead letter
)

// ReplayState says how a replay stands.
type ReplayState string

// States of a replay. All but the first are final.
const (
	ReplayRunning   ReplayState = "running"
	ReplayDone      ReplayState = "done"      // everything was settled: delivered, or given up again
	ReplayCancelled ReplayState = "cancelled" // by a client, or with its subscription
)

// Replay delivers a past range of a subscription's events again, or its dead letters, on
// request. It goes on beside the live deliveries, in lanes of its own: live events keep their
// order, and so do replayed ones. Requests carry the webhook-id that they had.
type Replay struct {
	ID           string      `json:"id"`
	Subscription string      `json:"subscription"`
	Namespace    string      `json:"namespace"`
	Kind         ReplayKind  `json:"kind"`
	State        ReplayState `json:"state"`
	Reason       string      `json:"reason,omitempty"` // of a cancellation

	// From and To are the first and the last sequence: of the namespace's log, or of the dead
	// letters.
	From uint64 `json:"from_seq"`
	To   uint64 `json:"to_seq"`
	// Types are patterns of event types as a filter has them; empty: all.
	Types []string `json:"types,omitempty"`
	// EventIDs restricts a replay to some events; empty: all.
	EventIDs []string `json:"event_ids,omitempty"`
	// Rate bounds the replay's requests; zero: the subscription's own rate.
	Rate Rate `json:"rate,omitzero"`

	Next  uint64 `json:"next_seq"`  // everything before was settled or waits in a parked lane
	Total uint64 `json:"total"`     // events between From and To when it began, before the filter: an upper bound
	Sent  uint64 `json:"delivered"` // events that arrived
	Dead  uint64 `json:"dead"`      // events that were given up

	// Began is the subscription's: a replay does not outlive a move to another place of the log.
	Began     time.Time  `json:"subscription_began"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	UpdatedAt time.Time  `json:"updated_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Revision  uint64     `json:"revision,omitempty"`
}

// Acts reports whether it is an act on the lane of one event, not a delivery beside the lanes.
func (r *Replay) Acts() bool { return r.Kind == ReplayRetry || r.Kind == ReplayDiscard }

// Wants reports whether the replay is to deliver an event that its subscription wants.
func (r *Replay) Wants(ev *Event) bool {
	return (len(r.EventIDs) == 0 || slices.Contains(r.EventIDs, ev.ID)) && (len(r.Types) == 0 || MatchType(r.Types, ev.Type))
}
