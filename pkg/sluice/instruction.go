package sluice

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// InstructionKind is the trigger of an instruction.
type InstructionKind string

// The kinds of instructions, which are part of keys.
const (
	KindAppointment InstructionKind = "appointment" // a time (S2-37)
	KindWatch       InstructionKind = "watch"       // a condition (S2-42)
)

// CheckInstructionID returns an error (InvalidRequest) unless the ID is valid for an instruction: 1
// to 64 of A–Z, a–z, 0–9, "_" and "-".
func CheckInstructionID(kind InstructionKind, id string) error {
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return strangeInName(r) || r == '.' || r == '@' || r == '+' }) {
		return Errorf(InvalidRequest, "%s id %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", kind, clip(id)).With("field", "id")
	}
	return nil
}

// Action is the event that an instruction publishes in its namespace, with the permissions that the
// instruction's creator has at that moment.
type Action struct {
	Path            Path   `json:"path"`
	Type            string `json:"type"`
	Source          string `json:"source,omitempty"`
	Subject         string `json:"subject,omitempty"`
	DataContentType string `json:"datacontenttype,omitempty"`
	DataSchema      string `json:"dataschema,omitempty"`
	// Extensions are additional CloudEvents attributes.
	Extensions map[string]string `json:"extensions,omitempty"`
	// Data is JSON; for another content type, a JSON string with the text.
	Data json.RawMessage `json:"data,omitempty"`
}

// MaxActionData limits the size of an action's data, because the action is stored in a record.
const MaxActionData = 64 << 10

// Validate returns an error unless the API would accept the action's event. Codes InvalidRequest;
// TooLarge; Forbidden for reserved values.
func (a *Action) Validate() error {
	if len(a.Data) > MaxActionData {
		return Errorf(TooLarge, "action.data has %d bytes; use at most %d", len(a.Data), MaxActionData).With("field", "action.data")
	}
	if a.Path == "" || a.Type == "" {
		return Errorf(InvalidRequest, "action: an event needs a path and a type").With("field", "action")
	}
	e := a.Event("", "event")
	return e.Check()
}

// Event returns the event of one firing. The caller must set its time, its causes and its producer.
func (a *Action) Event(namespace, id string) Event {
	e := Event{
		Namespace: namespace, Path: a.Path, ID: id, Type: a.Type, Source: a.Source, Subject: a.Subject,
		ContentType: a.DataContentType, DataSchema: a.DataSchema, Extensions: maps.Clone(a.Extensions), Data: slices.Clone(a.Data),
	}
	var text string
	if !e.IsJSON() && json.Unmarshal(a.Data, &text) == nil {
		e.Data = []byte(text)
	}
	return e
}

// OutcomeOK is the dispatch_outcome of an action whose event is stored; any other outcome is a Code
// (S2-39).
const OutcomeOK = "ok"

// Creator is the principal and grant that created an instruction. If they lose the permission for
// its action, the instruction does nothing.
type Creator struct {
	CreatedBy Principal `json:"created_by"`
	Grant     string    `json:"grant,omitempty"` // "": created by root
	CreatedAt time.Time `json:"created_at"`
}

// Caller returns the creator as a caller.
func (c Creator) Caller() Caller { return Caller{Principal: c.CreatedBy, Grant: c.Grant} }

// Wish returns a subscription of the creator to the pattern, for code that decides about the access
// of subscriptions.
func (c Creator) Wish(namespace string, pattern Pattern) *Subscription {
	return &Subscription{Namespace: namespace, Pattern: pattern, Lifecycle: Lifecycle{CreatedBy: string(c.CreatedBy), Grant: c.Grant}}
}

// MaxAttribute limits the value of an event's attribute, in bytes.
const MaxAttribute = 4096

// CheckAttribute returns an error (InvalidRequest) unless the value of an attribute is a string as
// CloudEvents defines it, of at most MaxAttribute bytes.
func CheckAttribute(name, value string) error {
	strange := func(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }
	if len(value) > MaxAttribute || !utf8.ValidString(value) || strings.ContainsFunc(value, strange) {
		return Errorf(InvalidRequest, "%s: use at most %d bytes of UTF-8 without control characters", name, MaxAttribute).With("field", name)
	}
	return nil
}

// CheckExtension returns an error (InvalidRequest) unless the name and value are valid for an
// extension attribute.
func CheckExtension(name, value string) error {
	if name == "" || name == "data" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return Errorf(InvalidRequest, "attribute %q: use names of a-z and 0-9", clip(name)).With("field", clip(name))
	}
	return CheckAttribute(name, value)
}

// Check returns an error if the event itself shows that no caller other than the server may publish
// it. Codes InvalidRequest; Forbidden for reserved values.
func (e *Event) Check() error {
	if err := CheckEventID(e.ID); err != nil {
		return err
	}
	texts := [][2]string{{"type", e.Type}, {"source", e.Source}, {"subject", e.Subject}, {"dataschema", e.DataSchema}, {"datacontenttype", e.ContentType}}
	for _, t := range texts {
		if err := CheckAttribute(t[0], t[1]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if err := CheckExtension(name, e.Extensions[name]); err != nil {
			return err
		}
		if !isExtension(name) {
			return Errorf(InvalidRequest, "attribute %q is a standard attribute, not an extension", name).With("field", name)
		}
	}
	if _, err := ParsePath(string(e.Path)); err != nil {
		return err
	}
	return e.CheckReserved()
}

// CheckReserved returns an error (Forbidden) if only the server may publish the event.
func (e *Event) CheckReserved() error {
	if err := e.Path.CheckReserved(); err != nil {
		return err
	}
	if IsSystemType(e.Type) {
		return Errorf(Forbidden, "type %q: types that start with sys. are reserved", e.Type)
	}
	return nil
}
