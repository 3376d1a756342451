package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Media types of CloudEvents' JSON format.
const (
	// StructuredType is that of one event.
	StructuredType = "application/cloudevents+json"
	batchType      = "application/cloudevents-batch+json"
	jsonType       = "application/json"
)

// MaxBatch is the maximum number of events of a request.
const MaxBatch = 1000

// Parse returns the events of a request, in order: one CloudEvent in structured or binary
// mode, a batch, or plain JSON in the short form. Code InvalidRequest otherwise.
func Parse(header http.Header, body []byte) ([]sluice.Event, error) {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	var events []sluice.Event
	if media == StructuredType || media == batchType || media == jsonType && !isBinary(header) {
		if err := strictjson.CheckEvents(body); err != nil {
			return nil, err
		}
	}
	switch {
	case media == StructuredType:
		events, err = parseOne(body, parseStructured)
	case media == batchType:
		events, err = parseArray(body, parseStructured)
	case isBinary(header):
		events = make([]sluice.Event, 1)
		events[0], err = parseBinary(header, body)
	case media != jsonType:
		return nil, sluice.Errorf(sluice.InvalidRequest,
			"content type %q: send %s, %s, ce-* headers, or %s with {\"path\",\"type\",\"data\"}", media, StructuredType, batchType, jsonType)
	case bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")):
		events, err = parseArray(body, parsePlain)
	default:
		events, err = parseOne(body, parsePlain)
	}
	if err != nil {
		return nil, err
	}
	return events, InheritTrace(header, events)
}

func isBinary(header http.Header) bool {
	return header.Get("Ce-Specversion") != "" || header.Get("Ce-Id") != "" || header.Get("Ce-Type") != ""
}

// parseArray parses the elements one at a time, so that an array above the limit costs no more than
// a batch.
func parseArray(body []byte, parse func(json.RawMessage) (sluice.Event, error)) ([]sluice.Event, error) {
	items, err := jsonarray.Split(body, MaxBatch)
	switch {
	case errors.Is(err, jsonarray.ErrTooMany):
		return nil, sluice.Errorf(sluice.InvalidRequest, "batch: use 1 to %d events; send the others in further batches", MaxBatch)
	case errors.Is(err, jsonarray.ErrNotArray):
		return nil, sluice.Errorf(sluice.InvalidRequest, "the body must be a batch: a JSON array of events")
	case err != nil:
		return nil, strictjson.SyntaxError(body)
	case len(items) == 0:
		return nil, sluice.Errorf(sluice.InvalidRequest, "batch: use 1 to %d events, not 0", MaxBatch)
	}
	events := make([]sluice.Event, len(items))
	for i, item := range items {
		if events[i], err = parse(item); err != nil {
			return nil, model.InBatch(i, len(items), err)
		}
	}
	return events, nil
}

func parseOne(body []byte, parse func(json.RawMessage) (sluice.Event, error)) ([]sluice.Event, error) {
	event, err := parse(body)
	if err != nil {
		return nil, err
	}
	return []sluice.Event{event}, nil
}

// shortForm is an event in plain JSON.
type shortForm struct {
	Path    string          `json:"path"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data"`
	ID      string          `json:"id"`
	Source  string          `json:"source"`
	Subject string          `json:"subject"`
	Time    string          `json:"time"`

	DeliverAt *string `json:"deliver_at"` // "" is invalid, and does not mean "now"
}

// parsePlain parses plain JSON: a CloudEvent if it has specversion, otherwise the short form, in
// which id, type and time are optional.
func parsePlain(item json.RawMessage) (sluice.Event, error) {
	if bytes.Contains(item, []byte(`"specversion"`)) && isCloudEvent(item) {
		return parseStructured(item)
	}
	var short shortForm
	if err := strictjson.Decode(item, &short); err != nil {
		return sluice.Event{}, err
	}
	e := sluice.Event{ID: short.ID, Type: short.Type, Source: short.Source, Subject: short.Subject, Data: short.Data}
	if e.Type == "" {
		e.Type = sluice.DefaultType
	}
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return sluice.Event{}, err
		}
		e.ID = id.String()
	}
	if err := setTime(&e, short.Time); err != nil {
		return sluice.Event{}, err
	}
	if short.DeliverAt != nil {
		e.Extensions = map[string]string{sluice.AttributeDeliverAt: *short.DeliverAt}
	}
	return e, finish(&e, short.Path)
}

// isCloudEvent reports whether plain JSON has specversion.
func isCloudEvent(item json.RawMessage) bool {
	var version struct {
		SpecVersion json.RawMessage `json:"specversion"`
	}
	return json.Unmarshal(item, &version) == nil && version.SpecVersion != nil
}

// parseStructured parses a CloudEvent in the JSON format. Its data is preserved byte for byte.
func parseStructured(item json.RawMessage) (sluice.Event, error) {
	var members map[string]json.RawMessage
	if err := strictjson.Decode(item, &members); err != nil {
		return sluice.Event{}, err
	}
	attributes := make(map[string]string, len(members))
	for name, raw := range members {
		if name == "data" || name == "data_base64" || string(raw) == "null" {
			continue
		}
		value, err := attributeValue(name, raw)
		if err != nil {
			return sluice.Event{}, err
		}
		attributes[name] = value
	}
	e, err := fromAttributes(attributes)
	if err != nil {
		return sluice.Event{}, err
	}
	e.Data, err = structuredData(&e, members)
	return e, err
}

// attributeValue returns a string, boolean or integer in its canonical string form.
func attributeValue(name string, raw json.RawMessage) (string, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return "", sluice.Errorf(sluice.InvalidRequest, "attribute %q is not valid JSON", name).With("field", name)
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 32); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
	}
	return "", sluice.Errorf(sluice.InvalidRequest, "attribute %q: CloudEvents allows strings, booleans and 32-bit integers", name).With("field", name)
}

// structuredData returns the event's data: decoded data_base64, the text of a string for a content
// type other than JSON, and anything else as it was sent.
func structuredData(e *sluice.Event, members map[string]json.RawMessage) ([]byte, error) {
	data, hasData := members["data"]
	encoded, hasEncoded := members["data_base64"]
	var text string
	switch {
	case hasData && hasEncoded:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the event has data and data_base64; use only one").With("field", "data_base64")
	case hasEncoded:
		if err := json.Unmarshal(encoded, &text); err != nil {
			return nil, sluice.Errorf(sluice.InvalidRequest, "data_base64 is not a string").With("field", "data_base64")
		}
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, sluice.Errorf(sluice.InvalidRequest, "data_base64 is not base64").With("field", "data_base64")
		}
		return decoded, nil
	case hasData && !e.IsJSON() && json.Unmarshal(data, &text) == nil:
		return []byte(text), nil
	}
	return data, nil
}

// parseBinary parses a CloudEvent with attributes in ce-* headers and data in the body.
func parseBinary(header http.Header, body []byte) (sluice.Event, error) {
	attributes := map[string]string{"datacontenttype": header.Get("Content-Type")}
	for name, values := range header {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok {
			continue
		}
		if len(values) > 1 || attribute == "datacontenttype" {
			return sluice.Event{}, sluice.Errorf(sluice.InvalidRequest, "header %s: send it once, and the data's type as Content-Type", name)
		}
		attributes[attribute] = unescape(values[0])
	}
	e, err := fromAttributes(attributes)
	if len(body) > 0 {
		e.Data = body
	}
	return e, err
}

// unescape decodes a header's value according to the CloudEvents HTTP binding (3.1.3.2): enclosing
// quotes are removed, %XX is a byte, and any other percent sign is literal.
func unescape(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(s[1 : len(s)-1])
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = after
		if len(s) < 2 {
			b.WriteByte('%')
			continue
		}
		code, err := strconv.ParseUint(s[:2], 16, 8)
		if err != nil {
			b.WriteByte('%')
			continue
		}
		b.WriteByte(byte(code))
		s = s[2:]
	}
}

// fromAttributes returns the event of a CloudEvent's attributes. Code InvalidRequest if one is
// missing or invalid.
func fromAttributes(attributes map[string]string) (sluice.Event, error) {
	var e sluice.Event
	if v := attributes["specversion"]; v != "1.0" {
		return e, sluice.Errorf(sluice.InvalidRequest, "specversion %q: this server supports CloudEvents \"1.0\"", v).With("field", "specversion")
	}
	for _, name := range []string{"id", "source", "type"} {
		if attributes[name] == "" {
			return e, sluice.Errorf(sluice.InvalidRequest, "the event has no %s, which CloudEvents requires", name).With("field", name)
		}
	}
	for name, value := range attributes {
		if err := setAttribute(&e, name, value); err != nil {
			return e, err
		}
	}
	return e, finish(&e, attributes["path"])
}

func setAttribute(e *sluice.Event, name, value string) error {
	switch name {
	case "specversion", "path":
	case "namespace", "sequence": // set by the server on delivery, and ignored in requests
	case "id":
		e.ID = value
	case "source":
		e.Source = value
	case "type":
		e.Type = value
	case "subject":
		e.Subject = value
	case "datacontenttype":
		e.ContentType = value
	case "dataschema":
		e.DataSchema = value
	case "time":
		return setTime(e, value)
	default:
		return setExtension(e, name, value)
	}
	return nil
}

func setTime(e *sluice.Event, value string) error {
	if value == "" {
		return nil
	}
	var err error
	e.Time, err = sluice.ParseTime(value)
	return err
}

func setExtension(e *sluice.Event, name, value string) error {
	if err := sluice.CheckExtension(name, value); err != nil {
		return err
	}
	if e.Extensions == nil {
		e.Extensions = map[string]string{}
	}
	e.Extensions[name] = value
	return nil
}
