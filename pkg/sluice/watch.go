package sluice

import (
	"cmp"
	"strconv"
	"time"
)

// Trigger says when a watch fires for a path whose readings meet its condition.
type Trigger string

// The triggers.
const (
	TriggerEdge  Trigger = "edge"  // when the condition begins to hold
	TriggerLevel Trigger = "level" // for each reading on which it holds
)

// Watch is a standing instruction: when a condition is met by events of a namespace, an event is published (S2-42).
//
// An event on a path of the pattern that the filter's types, sources and subjects choose is a reading of that path; its labels and
// its expression are the condition.
type Watch struct {
	ID          string   `json:"id"`
	Namespace   string   `json:"namespace"`
	Pattern     Pattern  `json:"pattern"`
	Filter      Filter   `json:"filter"`
	Trigger     Trigger  `json:"trigger"`
	Cooldown    Duration `json:"cooldown"` // in which a path fires once; 0: none
	For         Duration `json:"for"`      // for which the condition has to hold; 0: none
	Action      Action   `json:"action"`
	Description string   `json:"description"`

	// Set by the server.
	Creator

	FromSeq  uint64 `json:"from_seq"` // events behind it are looked at
	Revision uint64 `json:"revision"`

	Status *WatchStatus `json:"status,omitempty"` // where somebody looks at it
}

// WatchStatus is what came of a watch, a second ago or five.
type WatchStatus struct {
	Place      uint64    `json:"place"`    // events up to it were looked at
	Readings   uint64    `json:"readings"` // that were looked at
	Missed     uint64    `json:"missed"`   // readings for which it did not fire though it might have
	Throttled  uint64    `json:"throttled"`
	Fired      uint64    `json:"fired"` // how often
	FiredAt    time.Time `json:"fired_at,omitzero"`
	FiredSeq   uint64    `json:"fired_seq,omitempty"`
	Outcome    string    `json:"outcome,omitempty"` // of the last time
	Holds      int       `json:"holds"`             // paths on which the condition holds, as far as that matters
	Cooling    int       `json:"cooling"`           // paths that cool down
	CoolsUntil time.Time `json:"cools_until,omitzero"`
}

// WatchTrial is what a watch would have done with events that are there.
type WatchTrial struct {
	Since     uint64            `json:"since"`     // events behind it were looked at
	Place     uint64            `json:"place"`     // up to here
	More      bool              `json:"more"`      // there are others behind that; it can be asked for those, as if nothing had come before
	Events    int               `json:"events"`    // on paths of the pattern
	Readings  uint64            `json:"readings"`  // of these, that were looked at
	Fires     int               `json:"fires"`     // how often it would have fired
	Firings   []WatchFiring     `json:"firings"`   // the first of them
	Missed    map[string]uint64 `json:"missed"`    // readings for which it would not have fired though it might have, by reason
	Throttled uint64            `json:"throttled"` // readings that it would not have looked at
}

// WatchFiring is one time that a watch would have fired.
type WatchFiring struct {
	Seq  uint64    `json:"seq"` // of the reading, and what that is
	ID   string    `json:"id"`
	Path Path      `json:"path"`
	Type string    `json:"type"`
	At   time.Time `json:"at"` // when the reading was stored; with a duration, when that was over
}

// MaxWatchTime bounds a watch's cooldown and its duration.
const MaxWatchTime = Duration(30 * 24 * time.Hour)

// Validate returns an error unless the watch is one, as far as that needs nothing but itself; the filter's expression is
// not looked at. Codes InvalidRequest; TooLarge; Forbidden for an action that is for the server only.
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
		return Errorf(InvalidRequest, "%s is %v; use at least 1ms, or 0 for none", field, d)
	}
	return atMost(field, d, MaxWatchTime)
}

// Chooses returns the part of the filter that says which events are readings.
func (w *Watch) Chooses() Filter {
	return Filter{Types: w.Filter.Types, Sources: w.Filter.Sources, Subjects: w.Filter.Subjects}
}

// Condition returns the part of the filter that says what is to hold.
func (w *Watch) Condition() Filter { return Filter{Labels: w.Filter.Labels, CEL: w.Filter.CEL} }

// FiringID returns the id of the event that the watch publishes because of the reading with a sequence.
func (w *Watch) FiringID(seq uint64) string {
	return "watch-" + w.ID + "-" + strconv.FormatUint(w.Revision, 10) + "-" + strconv.FormatUint(seq, 10)
}

// Types of the system events about watches.
const (
	TypeWatchFired     = "watch.fired"     // S2-43
	TypeWatchMissed    = "watch.missed"    // S2-44
	TypeWatchCancelled = "watch.cancelled" // S2-45
	TypeWatchThrottled = "watch.throttled" // S2-46
)

// WatchesPath is where the system events about watches live.
const WatchesPath Path = "/_sys/watches"

// WatchPath returns where the system events about a watch live.
func WatchPath(id string) Path { return WatchesPath + Path("/"+id) }
