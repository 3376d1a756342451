package sluice

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Attribute is a CloudEvents attribute in its string form.
type Attribute struct{ Name, Value string }

// Attributes returns those of the event's CloudEvents attributes that are set, except specversion
// and datacontenttype, in a fixed order. The extensions path, namespace and sequence (20 digits, so
// that sequences sort as text) give the event's position. Extensions with a name that CloudEvents
// does not allow are omitted.
func (e *Event) Attributes() []Attribute {
	when := e.occurred()
	list := make([]Attribute, 0, 9+len(e.Extensions))
	add := func(name, value string) {
		if value != "" {
			list = append(list, Attribute{name, value})
		}
	}
	add("id", e.ID)
	add("source", cmp.Or(e.Source, "/"+e.Namespace))
	add("type", cmp.Or(e.Type, DefaultType))
	if !when.IsZero() {
		add("time", when.UTC().Format(time.RFC3339Nano))
	}
	add("subject", e.Subject)
	add("dataschema", e.DataSchema)
	add("path", string(e.Path))
	add("namespace", e.Namespace)
	add("sequence", e.sequence())
	if len(e.Extensions) == 0 {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if isExtension(name) {
			add(name, e.Extensions[name])
		}
	}
	return list
}

func isExtension(name string) bool {
	switch name {
	case "", "specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema",
		"data", "data_base64", "path", "namespace", "sequence":
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// sequence returns the attribute sequence. It is empty for an event that is not stored, such as a
// test event.
func (e *Event) sequence() string {
	if e.Seq == 0 {
		return ""
	}
	digits := strconv.FormatUint(e.Seq, 10)
	return strings.Repeat("0", 20-len(digits)) + digits
}

// MarshalJSON returns the event as a structured CloudEvent (see AppendJSON).
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends the event as a CloudEvent in the JSON format: its attributes, then its data.
// JSON data is copied byte for byte, text becomes a string, and anything else becomes
// "data_base64".
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(slices.Grow(b, len(e.Data)+640), `{"specversion":"1.0"`...)
	for _, a := range e.Attributes() {
		b = appendMember(b, a.Name, a.Value)
	}
	if len(e.Data) > 0 {
		b = appendMember(b, "datacontenttype", cmp.Or(e.ContentType, "application/json"))
		b = e.AppendData(append(b, ','), "data")
	}
	return append(b, '}')
}

// AppendData appends the event's data as a member of a JSON object: under the name, or under the
// name and "_base64" if JSON cannot represent it.
func (e *Event) AppendData(b []byte, name string) []byte {
	if data := e.JSONData(); data != nil {
		return append(append(AppendString(b, name), ':'), data...)
	}
	if strings.HasPrefix(strings.ToLower(e.ContentType), "text/") && !e.IsJSON() && utf8.Valid(e.Data) {
		return AppendString(append(AppendString(b, name), ':'), string(e.Data))
	}
	b = append(AppendString(b, name+"_base64"), ':', '"')
	return append(base64.StdEncoding.AppendEncode(b, e.Data), '"')
}

func appendMember(b []byte, name, value string) []byte {
	return AppendString(append(AppendString(append(b, ','), name), ':'), value)
}

// AppendString appends s as a JSON string with minimal escaping: invalid UTF-8 becomes U+FFFD, and
// HTML characters are not escaped, unlike in encoding/json.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r != utf8.RuneError {
			continue
		}
		b = append(b, s[start:i]...)
		size := utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError:
			_, size = utf8.DecodeRuneInString(s[i:])
			b = append(b, "\ufffd"...)
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			b = utf8.AppendRune(append(b, '\\'), r)
		}
		start = i + size
	}
	return append(append(b, s[start:]...), '"')
}

// UnmarshalJSON parses the output of AppendJSON, and any other structured CloudEvent whose
// attributes are strings, numbers or booleans. Code InvalidRequest otherwise.
func (e *Event) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Errorf(InvalidRequest, "not a CloudEvent: %v", err)
	}
	*e = Event{}
	for name, value := range raw {
		if name == "data" || name == "data_base64" || string(value) == "null" {
			continue
		}
		if err := e.setMember(name, value); err != nil {
			return err
		}
	}
	return e.setData(raw["data"], raw["data_base64"])
}

func (e *Event) setMember(name string, value json.RawMessage) error {
	text := string(value)
	switch value[0] {
	case '{', '[':
		return Errorf(InvalidRequest, "attribute %s: use a string, a number or a boolean", name)
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return Errorf(InvalidRequest, "attribute %s: %v", name, err)
		}
	}
	return e.setAttribute(name, text)
}

// setData sets the data, from the member "data_base64" if it is present. For a content type other
// than JSON, the data is the content of a string.
func (e *Event) setData(data, encoded json.RawMessage) error {
	if len(encoded) > 0 && string(encoded) != "null" {
		if err := json.Unmarshal(encoded, &e.Data); err != nil {
			return Errorf(InvalidRequest, "data_base64 is not base64")
		}
		return nil
	}
	e.Data = data
	var text string
	if !e.IsJSON() && json.Unmarshal(data, &text) == nil {
		e.Data = []byte(text)
	}
	return nil
}

func (e *Event) setAttribute(name, text string) (err error) {
	switch name {
	case "specversion":
	case "id":
		e.ID = text
	case "source":
		e.Source = text
	case "type":
		e.Type = text
	case "subject":
		e.Subject = text
	case "dataschema":
		e.DataSchema = text
	case "datacontenttype":
		e.ContentType = text
	case "path":
		e.Path = Path(text)
	case "namespace":
		e.Namespace = text
	case "sequence":
		e.Seq, err = strconv.ParseUint(text, 10, 64)
	case "time":
		e.Time, err = ParseTime(text)
	default:
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = text
	}
	if err != nil {
		return Errorf(InvalidRequest, "attribute %s: %q has an invalid format", name, text)
	}
	return nil
}
