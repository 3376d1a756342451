package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DefaultSource is the source of events published without one.
const DefaultSource = "/sluice/client"

// Publish stores events in a namespace, in order and atomically, and returns their positions.
// Namespace, Seq and Stored of an event are ignored. An empty ID is replaced by a generated one, so
// that a retry stores nothing twice.
func (c *Client) Publish(ctx context.Context, namespace string, events ...sluice.Event) ([]sluice.Stored, error) {
	if len(events) == 0 {
		return nil, nil
	}
	req := call{
		method: http.MethodPost, path: join(namespaces, namespace, "events"),
		media: "application/cloudevents+json",
	}
	for i := range events {
		one, err := structured(&events[i])
		if err != nil {
			return nil, err
		}
		req.body = append(append(req.body, ','), one...)
	}
	req.body = req.body[1:]
	if len(events) > 1 {
		req.media, req.body = "application/cloudevents-batch+json", slices.Concat([]byte("["), req.body, []byte("]"))
	}
	reply, err := send[struct {
		Events []sluice.Stored `json:"events"`
	}](ctx, c, req, nil)
	if err == nil && len(reply.Events) != len(events) {
		err = fmt.Errorf("POST %s: %d events were sent and %d confirmed", req.path, len(events), len(reply.Events))
	}
	return reply.Events, err
}

// structured returns an event as a structured CloudEvent; JSON data is copied byte for byte.
func structured(ev *sluice.Event) ([]byte, error) {
	body := map[string]any{}
	for name, value := range ev.Extensions {
		body[name] = value
	}
	set := func(name, value string) {
		if value != "" {
			body[name] = value
		}
	}
	body["specversion"], body["id"], body["path"] = "1.0", cmp.Or(ev.ID, newID(time.Now())), ev.Path
	set("type", cmp.Or(ev.Type, sluice.DefaultType))
	set("source", cmp.Or(ev.Source, DefaultSource))
	set("subject", ev.Subject)
	set("dataschema", ev.DataSchema)
	if !ev.Time.IsZero() {
		body["time"] = ev.Time.UTC()
	}
	raw := data(ev, body)
	encoded, err := encode(call{}, body)
	if err != nil || raw == nil {
		return encoded.body, err
	}
	return slices.Concat(bytes.TrimSuffix(encoded.body, []byte("}")), []byte(`,"data":`), raw, []byte("}")), nil
}

// data sets the members that hold the event's data, as text or base64. JSON data is returned
// instead, because a member of the body would not preserve its bytes.
func data(ev *sluice.Event, body map[string]any) (raw []byte) {
	switch {
	case len(ev.Data) == 0:
	case ev.JSONData() != nil:
		body["datacontenttype"] = cmp.Or(ev.ContentType, "application/json")
		return ev.JSONData()
	case strings.HasPrefix(ev.ContentType, "text/") && utf8.Valid(ev.Data):
		body["datacontenttype"], body["data"] = ev.ContentType, string(ev.Data)
	default:
		body["datacontenttype"], body["data_base64"] = cmp.Or(ev.ContentType, "application/octet-stream"), ev.Data
	}
	return nil
}

// newID returns a UUIDv7, so that IDs of one publisher sort by time.
func newID(now time.Time) string {
	var u [16]byte
	rand.Read(u[:]) // never returns an error
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(u[:6], ms[2:])
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// EventsQuery filters events; all fields are optional.
type EventsQuery struct {
	Pattern sluice.Pattern
	Types   []string
	// Exclusive: a sequence, an event ID, "-1" (the start) or "now". Inclusive: an RFC 3339 time,
	// or an age such as "10m".
	Since  string
	Until  string // inclusive, in the same format as Since
	Limit  int    // at most 1000; default 100
	Cursor string // Page.Next of the previous page
}

// Events returns events of a namespace in log order. Code WindowExceeded if Since is older than the
// oldest stored event.
func (c *Client) Events(ctx context.Context, namespace string, q EventsQuery) (Page[sluice.Event], error) {
	query := params("pattern", string(q.Pattern), "types", strings.Join(q.Types, ","), "since", q.Since,
		"until", q.Until, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.Event](ctx, c, join(namespaces, namespace, "events"), "events", query)
}

// Event returns the event with an ID or a sequence. Code NotFound if it does not exist.
func (c *Client) Event(ctx context.Context, namespace, idOrSeq string) (sluice.Event, error) {
	req := call{method: http.MethodGet, path: join(namespaces, namespace, "events", idOrSeq)}
	return send[sluice.Event](ctx, c, req, nil)
}
