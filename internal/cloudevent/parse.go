package cloudevent

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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
//
//	application/cloudevents+json         {"specversion":"1.0","id":…,"source":…,"type":…,"path":…,"data":…}
//	application/cloudevents-batch+json   [{…},{…}]
//	ce-* headers                         the body is the data, Content-Type is that of the data
//	application/json                     {"path":…,"type":…,"data":…}, or an array of that; an
//	                                     element with specversion is a CloudEvent
//
// In binary mode the data is body itself, not a copy. The IDs of events that have none are derived
// from the seed, in order; if it is empty, they are new ones.
func Parse(header http.Header, body []byte, seed string) ([]sluice.Event, error) {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	var events []sluice.Event
	ids := newIDs{seed: seed}
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
		events, err = parseArray(body, ids.parsePlain)
	default:
		events, err = parseOne(body, ids.parsePlain)
	}
	if err != nil {
		return nil, err
	}
	return events, InheritTrace(header, events)
}

// isBinary reports whether a request is in binary mode. One of the three headers is enough, so that
// a request without the others is told which attribute it lacks.
func isBinary(header http.Header) bool {
	return header.Get("Ce-Specversion") != "" || header.Get("Ce-Id") != "" || header.Get("Ce-Type") != ""
}

// parseArray parses the elements one at a time, so that an array above the limit costs no more than
// a batch. An error of an element names its index, and no event of the array is returned then.
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

// parseOne parses a body that is one event.
func parseOne(body []byte, parse func(json.RawMessage) (sluice.Event, error)) ([]sluice.Event, error) {
	event, err := parse(body)
	if err != nil {
		return nil, err
	}
	return []sluice.Event{event}, nil
}

// shortForm is an event in plain JSON. Only the path is required, and a subject stands in for it.
// Unknown members are an error, so that a misspelt one is not lost.
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

// newIDs generates the IDs of a request's events that have none.
type newIDs struct {
	seed string // a UUID of version 7; empty: no two requests have equal IDs
	n    int    // IDs that were derived
}

// next returns a UUID of version 7: a new one, or one with the time of the seed.
func (g *newIDs) next() (uuid.UUID, error) {
	if g.seed == "" {
		return uuid.NewV7()
	}
	g.n++
	sum := sha256.Sum256(fmt.Append(nil, g.seed, g.n))
	id, err := uuid.Parse(g.seed)
	copy(id[6:], sum[:10])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id, err
}

// parsePlain parses plain JSON: a CloudEvent if it has specversion, otherwise the short form, in
// which id, type and time are optional. An event without an ID gets a UUID: a request that is
// repeated without one is stored twice unless it has the seed of the first.
func (g *newIDs) parsePlain(item json.RawMessage) (sluice.Event, error) {
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
		id, err := g.next()
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

// isCloudEvent reports whether plain JSON has specversion. A member of the data with that name does
// not count.
func isCloudEvent(item json.RawMessage) bool {
	var version struct {
		SpecVersion json.RawMessage `json:"specversion"`
	}
	return json.Unmarshal(item, &version) == nil && version.SpecVersion != nil
}

// parseStructured parses a CloudEvent in the JSON format. Its data is preserved byte for byte. An
// attribute that is null counts as missing.
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

// attributeValue returns a string, boolean or integer in its canonical string form: "true", "-7".
// Code InvalidRequest for anything else, also for a fraction, and an integer of more than 32 bits.
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
// type other than JSON, and anything else as it was sent. Nil if there is none.
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

// parseBinary parses a CloudEvent with attributes in ce-* headers and data in the body. An empty
// body is no data, which differs from the JSON null.
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
// quotes are removed, %XX is a byte, and any other percent sign is literal. The result may be
// invalid UTF-8, which the check of the event refuses.
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

// setAttribute sets an attribute by its CloudEvents name; an unknown name is an extension. The
// caller uses specversion and path itself.
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

// setTime sets the time of an event (RFC 3339); an empty value leaves it zero, and the server sets
// the time at which it stores the event.
func setTime(e *sluice.Event, value string) error {
	if value == "" {
		return nil
	}
	var err error
	e.Time, err = sluice.ParseTime(value)
	if wrong, ok := errors.AsType[*sluice.Error](err); ok {
		return wrong.With("field", "time")
	}
	return err
}

// setExtension sets an extension. Code InvalidRequest for a name or value that CloudEvents does not
// permit.
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
