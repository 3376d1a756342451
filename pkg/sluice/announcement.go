package sluice

import (
	"encoding/json"
	"time"
)

// Announcement is the system event of a change. It is stored atomically with the change, so that it
// is published even after a crash.
type Announcement struct {
	ID   string `json:"id"` // ID of the event
	Type string `json:"type"`
	// Namespace of the resource; "": that of the record with the announcement.
	Namespace string `json:"namespace,omitempty"`
	// Revision is the revision of the resource after the change.
	Revision    uint64          `json:"revision,omitempty"`
	State       State           `json:"state,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	CancelledBy string          `json:"cancelled_by,omitempty"` // a principal, or ActorSystem
	Old         json.RawMessage `json:"old,omitempty"`          // previous values of the changed fields
	New         json.RawMessage `json:"new,omitempty"`
	At          time.Time       `json:"at"`
}
