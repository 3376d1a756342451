package sluice

import (
	"cmp"
	"time"
)

// Trigger determines when a watch fires for a path whose readings meet its condition.
type Trigger string

// The triggers.
const (
	TriggerEdge  Trigger = "edge"  // when the condition becomes true
	TriggerLevel Trigger = "level" // for each reading that meets it
)

// Watch is a standing instruction: when events of a namespace meet a condition, an event is
// published (S2-42).
//
// An event on a path of the pattern that matches the filter's types, sources and subjects is a
// reading of that path; the filter's labels and expression are the condition.
type Watch struct {
	ID          string   `json:"id"`
	Namespace   string   `json:"namespace"`
	Pattern     Pattern  `json:"pattern"`
	Filter      Filter   `json:"filter,omitzero"`
	Trigger     Trigger  `json:"trigger"`
	Cooldown    Duration `json:"cooldown"` // time in which a path fires at most once; 0: none
	For         Duration `json:"for"`      // how long the condition must hold; 0: none
	Action      Action   `json:"action"`
	Description string   `json:"description"`

	// Set by the server.
	Creator

	FromSeq  uint64 `json:"from_seq"` // exclusive start sequence
	Revision uint64 `json:"revision"`

	Status *WatchStatus `json:"status,omitempty"` // only for a single watch
}

// WatchStatus is the activity of a watch, up to five seconds old.
type WatchStatus struct {
	Place      uint64    `json:"place"`    // last examined sequence
	Readings   uint64    `json:"readings"` // number of examined readings
	Missed     uint64    `json:"missed"`   // number of readings for which a firing was missed
	Throttled  uint64    `json:"throttled"`
	Fired      uint64    `json:"fired"` // number of firings
	FiredAt    time.Time `json:"fired_at,omitzero"`
	FiredSeq   uint64    `json:"fired_seq,omitempty"`
	Outcome    string    `json:"outcome,omitempty"` // outcome of the last firing
	Holds      int       `json:"holds"`             // number of tracked paths on which the condition holds
	Cooling    int       `json:"cooling"`           // number of paths in cooldown
	CoolsUntil time.Time `json:"cools_until,omitzero"`
}

// WatchTrial is the result of simulating a watch over stored events.
type WatchTrial struct {
	Since uint64 `json:"since"` // exclusive start sequence
	Place uint64 `json:"place"` // last examined sequence
	// More: more events follow. They can be simulated separately, without the earlier readings.
	More     bool          `json:"more"`
	Events   int           `json:"events"`   // number of events on paths of the pattern that the caller may read
	Readings uint64        `json:"readings"` // number of events that were readings
	Fires    int           `json:"fires"`    // how often the watch would have fired
	Firings  []WatchFiring `json:"firings"`  // the first firings
	// Missed is the number of readings for which a firing would have been missed, by reason.
	Missed    map[string]uint64 `json:"missed"`
	Throttled uint64            `json:"throttled"` // number of readings that would have been throttled
}

// WatchFiring is one simulated firing.
type WatchFiring struct {
	Seq  uint64    `json:"seq"` // sequence of the reading, followed by its attributes
	ID   string    `json:"id"`
	Path Path      `json:"path"`
	Type string    `json:"type"`
	At   time.Time `json:"at"` // when the reading was stored; with For, when that period ended
}

// MaxWatchTime is the maximum of a watch's cooldown and For.
const MaxWatchTime = Duration(30 * 24 * time.Hour)

// Validate checks all rules that need only the watch, except the filter's expression. Codes
// InvalidRequest; TooLarge; Forbidden for a reserved action.
func (w *Watch) Validate() error {
	if err := CheckInstructionID(KindWatch, w.ID); err != nil {
		return err
	}
	if _, err := ParsePattern(string(w.Pattern)); err != nil {
		return err
	}
	return cmp.Or(
		w.Filter.Check(),
		oneOf("trigger", w.Trigger, TriggerEdge, TriggerLevel),
		checkWatchTime("cooldown", w.Cooldown),
		checkWatchTime("for", w.For),
		text("description", w.Description, MaxMetadataValue),
		w.Action.Validate(),
	)
}

func checkWatchTime(field string, d Duration) error {
	if d != 0 && d < Duration(time.Millisecond) {
		return Errorf(InvalidRequest, "%s is %v; use at least 1ms, or 0 for none", field, d).With("field", field)
	}
	return atMost(field, d, MaxWatchTime)
}

// Chooses returns the part of the filter that selects the readings.
func (w *Watch) Chooses() Filter {
	return Filter{Types: w.Filter.Types, Sources: w.Filter.Sources, Subjects: w.Filter.Subjects}
}

// Condition returns the part of the filter that is the condition.
func (w *Watch) Condition() Filter { return Filter{Labels: w.Filter.Labels, CEL: w.Filter.CEL} }

// Types of the system events about watches.
const (
	TypeWatchFired     = "watch.fired"     // S2-43
	TypeWatchMissed    = "watch.missed"    // S2-44
	TypeWatchCancelled = "watch.cancelled" // S2-45
	TypeWatchThrottled = "watch.throttled" // S2-46
)

// WatchesPath is the parent path of system events about watches.
const WatchesPath Path = "/_sys/watches"

// WatchPath returns the path of system events about a watch.
func WatchPath(id string) Path { return WatchesPath + Path("/"+id) }
