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

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const structuredType = "application/cloudevents+json"

// eventOf returns the event that a stored message is: CloudEvents in binary or structured
// mode, or a plain message, whose id, type, source and time come from where it lies. Header
// names are read in any case; of several that differ in case only, the one in lower case
// counts, so that a message is the same event whenever it is read. Auth attributes are there only if a stamp proves them.
//
// Code InvalidRequest if the subject is not a path's, or that of a path without writers, or a
// structured body is not a CloudEvent. The event then has its place, its id as far as known, and
// its data as it came.
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
		e.ID = placeID(e.Namespace, seq)
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

// EventIn returns the event that a message of a log is, as eventOf does.
func (l *Log) EventIn(msg *nats.Msg, meta *nats.MsgMetadata) (sluice.Event, error) {
	return l.stamps.eventOf(msg.Subject, msg.Header, msg.Data, meta.Sequence.Stream, meta.Timestamp)
}

// placeID returns the id of an event that came without one.
func placeID(ns string, seq uint64) string { return ns + "-" + strconv.FormatUint(seq, 10) }

// namespaceOf returns the second token: the namespace of a subject, without the prefix, that is not a path's.
func namespaceOf(subject string) string {
	_, rest, _ := strings.Cut(subject, ".")
	ns, _, _ := strings.Cut(rest, ".")
	return ns
}

// readHeader enters the headers and returns the Nats-Msg-Id.
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
			msgID = unescape(value)
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

// setAttribute enters a CloudEvents attribute. A time that is none is as good as no time.
func setAttribute(e *sluice.Event, name, value string) {
	switch name {
	case "id":
		e.ID = value
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

// readStructured replaces a body that is the whole event by its content. A header counts
// only where the body says nothing.
func readStructured(e *sluice.Event) error {
	if media, _, err := mime.ParseMediaType(e.ContentType); err != nil || media != structuredType {
		return nil //nolint:nilerr // a content type that cannot be read is not this one
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

// readData enters the data of a structured event: JSON stays JSON, a string under another
// content type is its text.
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

// text returns a JSON string's value, and everything else as it is written.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// directEvent returns the event in an answer to a direct get.
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
