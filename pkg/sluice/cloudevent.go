package sluice

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MarshalJSON returns the event as a structured CloudEvent (see AppendJSON).
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends the event as a CloudEvent in the JSON format. JSON data is taken over
// byte for byte, other data is "data_base64". The extensions path, namespace and sequence
// (20 digits, so that they sort) say where the event lies.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"specversion":"1.0"`...)
	b = appendMember(b, "id", e.ID)
	b = appendMember(b, "source", e.Source)
	b = appendMember(b, "type", e.Type)
	b = appendMember(b, "time", e.Time.UTC().Format(time.RFC3339Nano))
	for _, optional := range [][2]string{{"subject", e.Subject}, {"dataschema", e.DataSchema}} {
		if optional[1] != "" {
			b = appendMember(b, optional[0], optional[1])
		}
	}
	b = appendMember(b, "path", string(e.Path))
	b = appendMember(b, "namespace", e.Namespace)
	b = appendMember(b, "sequence", e.Sequence())
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if !slices.Contains([]string{"path", "namespace", "sequence"}, name) {
			b = appendMember(b, name, e.Extensions[name])
		}
	}
	return append(e.appendData(b), '}')
}

// Sequence returns Seq as 20 digits.
func (e *Event) Sequence() string { return fmt.Sprintf("%020d", e.Seq) }

func (e *Event) appendData(b []byte) []byte {
	if e.ContentType != "" {
		b = appendMember(b, "datacontenttype", e.ContentType)
	}
	switch {
	case len(e.Data) == 0:
		return b
	case e.JSONData() != nil:
		if e.ContentType == "" {
			b = append(b, `,"datacontenttype":"application/json"`...)
		}
		return append(append(b, `,"data":`...), e.Data...)
	case strings.HasPrefix(e.ContentType, "text/") && utf8.Valid(e.Data):
		return appendMember(b, "data", string(e.Data))
	}
	b = append(b, `,"data_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, e.Data), '"')
}

func appendMember(b []byte, name, value string) []byte {
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return AppendString(b, value)
}

// AppendString appends s as a JSON string, without the escapes that only HTML needs.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// UnmarshalJSON reads what AppendJSON wrote, and any other structured CloudEvent whose
// attributes are strings, numbers or booleans. Code InvalidRequest if it is none.
func (e *Event) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Errorf(InvalidRequest, "not a CloudEvent: %v", err)
	}
	*e = Event{}
	for name, value := range raw {
		if err := e.setMember(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (e *Event) setMember(name string, value json.RawMessage) error {
	switch name {
	case "data":
		if e.Data == nil {
			e.Data = value
		}
		return nil
	case "data_base64":
		if err := json.Unmarshal(value, &e.Data); err != nil {
			return Errorf(InvalidRequest, "data_base64 is not base64")
		}
		return nil
	}
	text := strings.TrimSpace(string(value))
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(value, &text); err != nil {
			return Errorf(InvalidRequest, "attribute %s: %v", name, err)
		}
	}
	return e.setAttribute(name, text)
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
		e.Time, err = time.Parse(time.RFC3339Nano, text)
	default:
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = text
	}
	if err != nil {
		return Errorf(InvalidRequest, "attribute %s: %q is not of the form that is expected", name, text)
	}
	return nil
}
