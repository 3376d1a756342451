package webhook

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Envelope is the format of a request's body.
type Envelope string

// The envelopes.
const (
	CloudEvents Envelope = "cloudevents"        // CloudEvents structured JSON
	Binary      Envelope = "cloudevents-binary" // attributes in ce-* headers, data in the body
	Fact        Envelope = "fact"               // S0-30…39
	Attempt     Envelope = "attempt"            // S4-54…57
	Raw         Envelope = "raw"                // the data as published
)

// Delivery is the content of a request: one event, and the number of the delivery attempt. Fields
// that the envelope does not carry are empty.
type Delivery struct {
	Envelope     Envelope
	Subscription string // only in Fact
	Attempt      int    // from 1
	ID           string // equal in every attempt and replay; handle each ID once
	Type         string
	Source       string
	Subject      string
	Namespace    string
	Path         string
	Seq          uint64 // sequence in the namespace's log; later events have higher ones
	Time         time.Time
	ContentType  string // of Data
	DataSchema   string
	// Other CloudEvents attributes; for Fact and Attempt, the equivalent fields.
	Extensions map[string]string
	Data       []byte // byte for byte as published; in Fact and Attempt text is a JSON string
}

// Parse returns the content of a request. An empty envelope is detected from the request:
// CloudEvents by the headers, Fact and Attempt by their members, and everything else is Raw. Set
// the envelope if the subscription sends Raw and publishers control the data. Parse does not
// authenticate the request: verify it first, or call Receiver.Receive, which does both. Parse
// returns ErrMalformed if the request has another envelope, and ErrSetup if it is a batch (see
// ParseBatch).
func Parse(envelope Envelope, header http.Header, body []byte) (*Delivery, error) {
	if envelope == "" && isBatch(header) {
		return nil, fmt.Errorf("%w: the request is a batch; use ReceiveBatch or ParseBatch", ErrSetup)
	}
	if envelope == "" {
		envelope = detect(header, body)
	}
	d := &Delivery{Envelope: envelope, ContentType: header.Get("Content-Type"), Data: body}
	d.Attempt, _ = strconv.Atoi(header.Get(HeaderAttempt)) // 0 if a proxy removed it
	var err error
	switch envelope {
	case CloudEvents:
		err = d.structured(body)
	case Binary:
		d.binary(header)
	case Fact:
		err = d.fact(body)
	case Attempt:
		err = d.attempt(body)
	case Raw:
		d.ID = header.Get(HeaderID)
	default:
		return nil, ErrMalformed
	}
	if err != nil || d.ID == "" || d.Type == "" && envelope != Raw {
		return nil, ErrMalformed
	}
	return d, nil
}

// ParseBatch returns the events of a CloudEvents batch, which a subscription with a batch sends, in
// the order of the log. All have the number of the batch's attempt. Like Parse, it does not
// authenticate the request. It returns ErrMalformed if the request is not a batch.
func ParseBatch(header http.Header, body []byte) ([]*Delivery, error) {
	var events []json.RawMessage
	if !isBatch(header) || json.Unmarshal(body, &events) != nil {
		return nil, ErrMalformed
	}
	all := make([]*Delivery, len(events))
	for i, event := range events {
		d, err := Parse(CloudEvents, header, event)
		if err != nil {
			return nil, err
		}
		all[i] = d
	}
	return all, nil
}

func isBatch(header http.Header) bool {
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return mediaType == "application/cloudevents-batch+json"
}

func detect(header http.Header, body []byte) Envelope {
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if mediaType == "application/cloudevents+json" {
		return CloudEvents
	}
	if header.Get("Ce-Specversion") != "" {
		return Binary
	}
	var members map[string]json.RawMessage
	if mediaType != "application/json" || json.Unmarshal(body, &members) != nil {
		return Raw
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := members[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("subscription_id", "event_id", "event_type", "idempotency_key"):
		return Fact
	case has("event", "attempt", "timestamp", "signature"):
		return Attempt
	default:
		return Raw
	}
}

func (d *Delivery) structured(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return ErrMalformed
	}
	var data json.RawMessage
	d.Data, d.ContentType = nil, "application/json"
	for name, value := range members {
		switch name {
		case "data":
			data = value
		case "data_base64":
			if json.Unmarshal(value, &d.Data) != nil { // []byte is base64 in JSON
				return ErrMalformed
			}
		default:
			d.attribute(name, text(value))
		}
	}
	if data == nil {
		return nil
	}
	d.Data = data
	var s string
	if !isJSON(d.ContentType) && json.Unmarshal(data, &s) == nil {
		d.Data = []byte(s)
	}
	return nil
}

func (d *Delivery) binary(header http.Header) {
	for name, values := range header {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok || len(values) == 0 {
			continue
		}
		value, err := url.PathUnescape(values[0])
		if err != nil {
			value = values[0]
		}
		d.attribute(attribute, value)
	}
}

func (d *Delivery) fact(body []byte) error {
	var f struct {
		Subscription string `json:"subscription_id"`
		ID           string `json:"event_id"`
		Type         string `json:"event_type"`
		Entity       string `json:"entity"`
		Scope        string `json:"scope"`
		FactID       string `json:"fact_id"`
		HLC          string `json:"hlc"`
		payload
	}
	if err := json.Unmarshal(body, &f); err != nil {
		return ErrMalformed
	}
	d.Subscription, d.ID, d.Type, d.Subject, d.Namespace = f.Subscription, f.ID, f.Type, f.Entity, f.Scope
	if strings.HasPrefix(f.Entity, "/") {
		d.Path = f.Entity
	}
	d.extend("hlc", f.HLC)
	d.extend("resourceid", f.FactID)
	f.set(d)
	return nil
}

func (d *Delivery) attempt(body []byte) error {
	var b struct {
		Event struct {
			ID           string          `json:"eventId"`
			Type         string          `json:"eventType"`
			ResourceType string          `json:"resourceType"`
			ResourceID   string          `json:"resourceId"`
			Project      string          `json:"projectId"`
			CreatedAt    time.Time       `json:"createdAt"`
			ProducedBy   string          `json:"producedBy"`
			Version      json.RawMessage `json:"version"`
			payload
		} `json:"event"`
		Attempt int `json:"attempt"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return ErrMalformed
	}
	d.Attempt = b.Attempt
	d.ID, d.Type, d.Namespace, d.Time = b.Event.ID, b.Event.Type, b.Event.Project, b.Event.CreatedAt
	d.extend("resourcetype", b.Event.ResourceType)
	d.extend("resourceid", b.Event.ResourceID)
	d.extend("authtype", b.Event.ProducedBy)
	d.extend("schemaversion", text(b.Event.Version))
	b.Event.set(d)
	return nil
}

// payload is the form of an event's data in Fact and Attempt.
type payload struct {
	Payload json.RawMessage `json:"payload"`
	Base64  []byte          `json:"payload_base64"`
}

func (p *payload) set(d *Delivery) {
	d.Data = p.Payload
	switch {
	case p.Base64 != nil:
		d.Data, d.ContentType = p.Base64, "application/octet-stream"
	case string(p.Payload) == "null":
		d.Data = nil
	}
}

// attribute sets one CloudEvents attribute.
func (d *Delivery) attribute(name, value string) {
	switch name {
	case "specversion":
	case "id":
		d.ID = value
	case "type":
		d.Type = value
	case "source":
		d.Source = value
	case "subject":
		d.Subject = value
	case "time":
		d.Time, _ = time.Parse(time.RFC3339Nano, value) // zero if malformed
	case "datacontenttype":
		d.ContentType = value
	case "dataschema":
		d.DataSchema = value
	case "namespace":
		d.Namespace = value
	case "path":
		d.Path = value
	case "sequence":
		d.Seq, _ = strconv.ParseUint(value, 10, 64) // 0 if malformed
	default:
		d.extend(name, value)
	}
}

func (d *Delivery) extend(name, value string) {
	if value == "" {
		return
	}
	if d.Extensions == nil {
		d.Extensions = map[string]string{}
	}
	d.Extensions[name] = value
}

// text returns the content of a JSON string, and any other JSON value unchanged.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

func isJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	mediaType = strings.TrimSpace(mediaType)
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}
