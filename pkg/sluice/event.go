package sluice

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// Event is an immutable fact: a CloudEvents 1.0 event on a path of a namespace.
type Event struct {
	Namespace   string
	Path        Path
	Seq         uint64 // sequence in the namespace's log, from 1; 0 before it is stored
	ID          string // unique within the namespace
	Type        string
	Source      string // URI reference
	Time        time.Time
	Stored      time.Time // when it was stored
	Subject     string    // CloudEvents subject; optional
	ContentType string    // content type of Data; default "application/json"
	DataSchema  string
	Extensions  map[string]string // other CloudEvents attributes, lower-case names
	Data        []byte
}

// DefaultType is the type of events published without one.
const DefaultType = "message"

// Entity returns the entity of an event: its subject, or its path if it has none. It is the member
// entity of the envelope fact (S0-33). A target "entity:" and the subjects of a filter match it.
func (e *Event) Entity() string { return cmp.Or(e.Subject, string(e.Path)) }

// IsJSON reports whether the content type is a JSON media type or absent.
func (e *Event) IsJSON() bool {
	t, _, _ := strings.Cut(strings.ToLower(e.ContentType), ";")
	t = strings.TrimSpace(t)
	return t == "" || t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// JSONData returns Data if its content type is JSON and it is valid JSON; otherwise nil.
func (e *Event) JSONData() json.RawMessage {
	if !e.IsJSON() || !json.Valid(e.Data) {
		return nil
	}
	return e.Data
}

// Repeats reports whether the event has the same type and the same data as another one, ignoring
// JSON white space. Attributes such as the time do not count, because a retry may have new ones.
func (e *Event) Repeats(first *Event) bool {
	if cmp.Or(e.Type, DefaultType) != cmp.Or(first.Type, DefaultType) {
		return false
	}
	return bytes.Equal(e.Data, first.Data) || bytes.Equal(e.compact(), first.compact())
}

// OtherEvent returns the error (Conflict) for an event that was not stored because its ID belongs
// to a different event.
func (e *Event) OtherEvent() error {
	return Errorf(Conflict, "the id %q belongs to an event of another type or with different data; choose another id, or send the same event", e.ID).With("id", e.ID)
}

// compact returns JSON data without white space, and other data unchanged.
func (e *Event) compact() []byte {
	var b bytes.Buffer
	if e.JSONData() == nil || json.Compact(&b, e.Data) != nil {
		return e.Data
	}
	return b.Bytes()
}

// Stored is the position of a published event.
type Stored struct {
	ID   string `json:"id"`
	Seq  uint64 `json:"seq"`
	Path Path   `json:"path"`
	// Duplicate: an event with this ID was stored before; Seq is the sequence of that event.
	Duplicate bool `json:"duplicate"`
	// Type is DefaultType for an event of that type, and empty for all others.
	Type string `json:"type,omitempty"`
}
