package sluice

import (
	"encoding/json"
	"time"
)

// Announcement is what is told of a change. It is stored in one step with the change itself, so that it is told
// whatever happens next.
type Announcement struct {
	ID          string          `json:"id"` // of the event
	Type        string          `json:"type"`
	Revision    uint64          `json:"revision,omitempty"` // of the resource, after the change
	State       State           `json:"state,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	CancelledBy string          `json:"cancelled_by,omitempty"` // a principal, or ActorSystem
	Old         json.RawMessage `json:"old,omitempty"`          // the fields that change, as they were
	New         json.RawMessage `json:"new,omitempty"`
	At          time.Time       `json:"at"`
}
