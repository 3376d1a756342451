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
