package sluice

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// Event is an immutable fact: a CloudEvents 1.0 event that lives at a path of a namespace.
type Event struct {
	Namespace   string
	Path        Path
	Seq         uint64 // its place in the namespace's log, from 1; 0 before it is stored
	ID          string // unique within the namespace
	Type        string
	Source      string // URI reference
	Time        time.Time
	Stored      time.Time // when the log took it
	Subject     string    // CloudEvents subject; optional
	ContentType string    // of Data; "application/json" if empty
	DataSchema  string
	Extensions  map[string]string // other CloudEvents attributes, lower-case names
	Data        []byte
}

// DefaultType is the type of an event whose publisher named none.
const DefaultType = "message"

// Entity returns what an event is about: its subject, or its path if it has none. It is the member entity of the
// envelope fact (S0-33), and what a target entity: and a filter's subjects are compared with.
func (e *Event) Entity() string { return cmp.Or(e.Subject, string(e.Path)) }

// IsJSON reports whether the content type is a JSON media type (or absent).
func (e *Event) IsJSON() bool {
	t, _, _ := strings.Cut(strings.ToLower(e.ContentType), ";")
	t = strings.TrimSpace(t)
	return t == "" || t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json")
}

// JSONData returns Data if it is JSON by content type and in truth, else nil.
func (e *Event) JSONData() json.RawMessage {
	if !e.IsJSON() || !json.Valid(e.Data) {
		return nil
	}
	return e.Data
}

// Repeats reports whether the event says what another one said: the same type and the same data, whatever white space
// JSON has. Attributes such as the time may be given anew by whoever sends an event again.
func (e *Event) Repeats(first *Event) bool {
	if cmp.Or(e.Type, DefaultType) != cmp.Or(first.Type, DefaultType) {
		return false
	}
	return bytes.Equal(e.Data, first.Data) || bytes.Equal(e.compact(), first.compact())
}

// OtherEvent returns the error (Conflict) of an event that was not stored because its id belongs to one that says something else.
func (e *Event) OtherEvent() error {
	return Errorf(Conflict, "the id %q belongs to an event of another type or with other data; choose another id, or send what was sent before", e.ID).With("id", e.ID)
}

// compact returns the data without white space if it is JSON, else as it is.
func (e *Event) compact() []byte {
	var b bytes.Buffer
	if e.JSONData() == nil || json.Compact(&b, e.Data) != nil {
		return e.Data
	}
	return b.Bytes()
}

// Stored says where a published event lies.
type Stored struct {
	ID        string `json:"id"`
	Seq       uint64 `json:"seq"`
	Path      Path   `json:"path"`
	Duplicate bool   `json:"duplicate"` // an event of this id was stored before; Seq is its place
}
