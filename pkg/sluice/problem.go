package sluice

import (
	"slices"
	"time"
)

// ProblemState is the state of a problem.
type ProblemState string

// The states.
const (
	ProblemOpen         ProblemState = "open"
	ProblemAcknowledged ProblemState = "acknowledged" // an operator has acknowledged it
	ProblemIgnored      ProblemState = "ignored"      // it stays ignored if it occurs again
	ProblemResolved     ProblemState = "resolved"     // the failures ended
)

// ProblemStates returns all states, in the order of lists.
func ProblemStates() []ProblemState {
	return []ProblemState{ProblemOpen, ProblemAcknowledged, ProblemIgnored, ProblemResolved}
}

// ProblemAct is a request that may solve a problem.
type ProblemAct string

// The acts.
const (
	ActProbe   ProblemAct = "probe"   // POST /v1/subscriptions/{id}/probe
	ActRetry   ProblemAct = "retry"   // POST /v1/subscriptions/{id}/retry
	ActRedrive ProblemAct = "redrive" // POST /v1/subscriptions/{id}/dead-letters/redrive
	ActResume  ProblemAct = "resume"  // POST /v1/subscriptions/{id}/resume
	ActPause   ProblemAct = "pause"   // POST /v1/subscriptions/{id}/pause
	ActRotate  ProblemAct = "rotate"  // POST /v1/subscriptions/{id}/secret/rotate
	ActSeek    ProblemAct = "seek"    // POST /v1/subscriptions/{id}/seek
)

// Problem summarizes the failures of one class of a subscription.
type Problem struct {
	ID           string       `json:"id"` // made of the subscription and the class
	Subscription string       `json:"subscription"`
	Namespace    string       `json:"namespace"`
	Class        FailureClass `json:"class"`
	State        ProblemState `json:"state"`

	Since      time.Time  `json:"since"` // its first failure since it was last resolved
	LastAt     time.Time  `json:"last_at"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`

	Events   uint64 `json:"events"` // failed since then; an estimate, exact if few
	Paths    uint64 `json:"paths"`
	Attempts uint64 `json:"attempts"`

	Status        int        `json:"status,omitempty"` // of the last failure; 0: no response
	Answer        string     `json:"answer,omitempty"` // the beginning of the last response, for the owner of the subscription
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`

	Sentence string       `json:"sentence"`       // what the problem means, and the remedy
	Acts     []ProblemAct `json:"acts,omitempty"` // acts that may help

	Note      string     `json:"note,omitempty"`
	ChangedBy string     `json:"changed_by,omitempty"` // the last change of the state or the note
	ChangedAt *time.Time `json:"changed_at,omitempty"`
}

// ProblemChange is a change of a problem.
type ProblemChange struct {
	State ProblemState `json:"state,omitempty"` // acknowledged, ignored or open; empty: unchanged
	Note  *string      `json:"note,omitempty"`  // nil: unchanged
}

// maxProblemNote limits the size of a note.
const maxProblemNote = 1000

// Validate returns an error (InvalidRequest) unless the change is valid.
func (c *ProblemChange) Validate() error {
	if c.State != "" && !slices.Contains([]ProblemState{ProblemOpen, ProblemAcknowledged, ProblemIgnored}, c.State) {
		return Errorf(InvalidRequest, "state %q: use open, acknowledged or ignored; problems are resolved by deliveries that succeed", c.State).With("field", "state")
	}
	if c.Note != nil && len(*c.Note) > maxProblemNote {
		return Errorf(InvalidRequest, "note: %d bytes exceed the limit of %d", len(*c.Note), maxProblemNote).With("field", "note")
	}
	if c.State == "" && c.Note == nil {
		return Errorf(InvalidRequest, "nothing to change: give a state or a note")
	}
	return nil
}
