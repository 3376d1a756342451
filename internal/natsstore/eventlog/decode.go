package eventlog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const structuredType = "application/cloudevents+json"

// eventOf returns the event of a stored message: a CloudEvent in binary or structured mode, or a
// plain message, which gets its ID, source and time from its sequence, namespace and time of
// storage, and the default type. Header names are case-insensitive. If several names differ only in
// case, the lower-case one has precedence, so that a message is always decoded to the same event.
// The event has auth attributes only if a stamp proves them.
//
// Code InvalidRequest if the subject is not that of a path, or the path has no writers, or a
// structured body is not a CloudEvent. The event then has its sequence, its ID as far as known, and
// its data unchanged.
func (st *stamps) eventOf(subject string, header nats.Header, data []byte, seq uint64, stored time.Time) (sluice.Event, error) {
	var w written
	err := w.read(st.names, subject, header, data)
	st.believe(&w, header)
	e := w.Event
	e.Seq, e.Stored = seq, stored.UTC()
	if e.ID == "" {
		e.ID = w.msgID
	}
	if e.ID == "" {
		e.ID = model.PlaceID(e.Namespace, seq)
	}
	if e.Type == "" {
		e.Type = sluice.DefaultType
	}
	if e.Source == "" {
		e.Source = "/namespaces/" + e.Namespace
	}
	if e.Time.IsZero() {
		e.Time = e.Stored
	}
	return e, err
}

// EventIn returns the event of a message of a log, like eventOf.
func (l *Log) EventIn(msg *nats.Msg, meta *nats.MsgMetadata) (sluice.Event, error) {
	return l.stamps.eventOf(msg.Subject, msg.Header, msg.Data, meta.Sequence.Stream, meta.Timestamp)
}

// namespaceOf returns the namespace, which is the second token, of a subject without the prefix
// that does not belong to a path.
func namespaceOf(subject string) string {
	_, rest, _ := strings.Cut(subject, ".")
	ns, _, _ := strings.Cut(rest, ".")
	return ns
}

// readHeader sets the attributes in the headers, and returns the Nats-Msg-Id.
func readHeader(e *sluice.Event, header nats.Header) string {
	var msgID string
	for _, name := range sortedNames(header) {
		if len(header[name]) == 0 {
			continue
		}
		value := header[name][0]
		name = strings.ToLower(name)
		switch name {
		case "nats-msg-id":
			msgID = chosenID(e.Namespace, unescape(value))
		case streams.HeaderContentType:
			e.ContentType = value
		case headerTraceParent, headerTraceState:
			setExtension(e, name, unescape(value))
		default:
			if attribute, ok := strings.CutPrefix(name, streams.HeaderPrefix); ok {
				setAttribute(e, attribute, unescape(value))
			}
		}
	}
	return msgID
}

// chosenID returns an ID in a message; "" for one that its publisher may not choose, so that the
// event is read as one without an ID.
func chosenID(ns, id string) string {
	if model.CheckChosenID(ns, id) != nil {
		return ""
	}
	return id
}

// setAttribute sets a CloudEvents attribute. It ignores an invalid time.
func setAttribute(e *sluice.Event, name, value string) {
	switch name {
	case "id":
		e.ID = chosenID(e.Namespace, value)
	case "type":
		e.Type = value
	case "source":
		e.Source = value
	case "subject":
		e.Subject = value
	case "dataschema":
		e.DataSchema = value
	case "time":
		if t, err := sluice.ParseTime(value); err == nil {
			e.Time = t
		}
	case "datacontenttype":
		e.ContentType = value
	case "specversion", "":
	default:
		setExtension(e, name, value)
	}
}

func setExtension(e *sluice.Event, name, value string) {
	if e.Extensions == nil {
		e.Extensions = map[string]string{}
	}
	e.Extensions[name] = value
}

// readStructured replaces a body in structured mode by the event that it contains. A header is used
// only for an attribute that the body does not have.
func readStructured(e *sluice.Event) error {
	if media, _, err := mime.ParseMediaType(e.ContentType); err != nil || media != structuredType {
		return nil //nolint:nilerr // an invalid content type is another one
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(e.Data, &body); err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "the body is not a CloudEvent in JSON")
	}
	read := *e
	read.ContentType, read.Data = "", nil
	for _, name := range slices.Sorted(maps.Keys(body)) {
		raw := body[name]
		if name == "data" || name == "data_base64" || string(raw) == "null" {
			continue
		}
		setAttribute(&read, strings.ToLower(name), text(raw))
	}
	if err := readData(&read, body); err != nil {
		return err
	}
	*e = read
	return nil
}

// readData sets the data of a structured event: JSON is kept, and a string with another content
// type is decoded to its text.
func readData(e *sluice.Event, body map[string]json.RawMessage) error {
	if raw, ok := body["data_base64"]; ok {
		data, err := base64.StdEncoding.DecodeString(text(raw))
		if err != nil {
			return sluice.Errorf(sluice.InvalidRequest, "data_base64 is not base64")
		}
		e.Data = data
		return nil
	}
	raw, ok := body["data"]
	switch {
	case !ok:
	case e.IsJSON() || !bytes.HasPrefix(raw, []byte(`"`)):
		e.Data = raw
	default:
		e.Data = []byte(text(raw))
	}
	return nil
}

// text returns the value of a JSON string, and any other JSON value unchanged.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// directEvent returns the event in a response to a direct get.
func (st *stamps) directEvent(msg *nats.Msg) (sluice.Event, error) {
	seq, err := strconv.ParseUint(natsstore.LastHeader(msg, natsstore.HeaderSequence), 10, 64)
	if err != nil {
		return sluice.Event{}, fmt.Errorf("read: sequence: %w", err)
	}
	stored, err := time.Parse(time.RFC3339Nano, natsstore.LastHeader(msg, natsstore.HeaderStored))
	if err != nil {
		return sluice.Event{}, fmt.Errorf("read: time of storing: %w", err)
	}
	return st.eventOf(natsstore.LastHeader(msg, natsstore.HeaderSubject), msg.Header, msg.Data, seq, stored)
}
