package sluice

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// InstructionKind is what makes an instruction fire.
type InstructionKind string

// The kinds of instructions. They are part of keys.
const (
	KindAppointment InstructionKind = "appointment" // a time (S2-37)
	KindWatch       InstructionKind = "watch"       // a condition (S2-42)
)

// CheckInstructionID returns an error (InvalidRequest) unless id can name an instruction: 1 to 64 of A–Z, a–z,
// 0–9, "_" and "-".
func CheckInstructionID(kind InstructionKind, id string) error {
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return strangeInName(r) || r == '.' || r == '@' || r == '+' }) {
		return Errorf(InvalidRequest, "%s id %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", kind, clip(id)).With("field", "id")
	}
	return nil
}

// Action is what an instruction does when it fires: it publishes this event in its namespace, as
// whoever made the instruction might publish it at that moment.
type Action struct {
	Path            Path              `json:"path"`
	Type            string            `json:"type"`
	Source          string            `json:"source,omitempty"`
	Subject         string            `json:"subject,omitempty"`
	DataContentType string            `json:"datacontenttype,omitempty"`
	DataSchema      string            `json:"dataschema,omitempty"`
	Extensions      map[string]string `json:"extensions,omitempty"` // more CloudEvents attributes
	Data            json.RawMessage   `json:"data,omitempty"`       // JSON; the text of a string if the content type is another one
}

// MaxActionData bounds the data of an action: it is kept in a record.
const MaxActionData = 64 << 10

// Validate returns an error unless the action's event is one that the API would take. Codes
// InvalidRequest; TooLarge; Forbidden for what only the server may say.
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

// Event returns the event of one firing, with what the action says. Its time, its causes and who produced
// it are for whoever lets it fire to say.
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

// OutcomeOK is the dispatch_outcome of an action whose event is stored; every other one is a Code (S2-39).
const OutcomeOK = "ok"

// DispatchOutcome returns what the system events about an instruction say of how its action went.
func DispatchOutcome(err error) string {
	if err == nil {
		return OutcomeOK
	}
	return string(CodeOf(err))
}

// Creator is who made an instruction, and under which grant: without the right to do what it
// does, it does nothing.
type Creator struct {
	CreatedBy Principal `json:"created_by"`
	Grant     string    `json:"grant,omitempty"` // "": root made it
	CreatedAt time.Time `json:"created_at"`
}

// Caller returns the creator as one who asks now.
func (c Creator) Caller() Caller { return Caller{Principal: c.CreatedBy, Grant: c.Grant} }

// Wish returns what the creator has of a pattern as a subscription would have it, for those who know subscriptions.
func (c Creator) Wish(namespace string, pattern Pattern) *Subscription {
	return &Subscription{Namespace: namespace, Pattern: pattern, CreatedBy: string(c.CreatedBy), Grant: c.Grant}
}

// MaxAttribute bounds the value of an event's attribute, in bytes.
const MaxAttribute = 4096

// CheckAttribute returns an error (InvalidRequest) unless the value of an attribute is text of a
// reasonable size, as CloudEvents defines its strings.
func CheckAttribute(name, value string) error {
	strange := func(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }
	if len(value) > MaxAttribute || !utf8.ValidString(value) || strings.ContainsFunc(value, strange) {
		return Errorf(InvalidRequest, "%s: use at most %d bytes of UTF-8 without control characters", name, MaxAttribute)
	}
	return nil
}

// CheckExtension returns an error (InvalidRequest) unless an event can have an extension attribute of the name
// and value.
func CheckExtension(name, value string) error {
	if name == "" || name == "data" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return Errorf(InvalidRequest, "attribute %q: names are of a-z and 0-9", clip(name))
	}
	return CheckAttribute(name, value)
}

// Check returns an error unless somebody other than the server may publish the event, as far as that needs nothing but
// the event. Codes InvalidRequest; Forbidden for what only the server may say.
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
			return Errorf(InvalidRequest, "attribute %q has a place of its own and is no extension", name)
		}
	}
	if _, err := ParsePath(string(e.Path)); err != nil {
		return err
	}
	switch {
	case e.Path.Reserved():
		return Errorf(Forbidden, "path %q: paths that start with /_sys or /$ are the server's own", e.Path)
	case IsSystemType(e.Type):
		return Errorf(Forbidden, "type %q: types that start with sys. are the server's own", e.Type)
	}
	return nil
}
