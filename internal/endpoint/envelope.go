package endpoint

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const (
	jsonType       = "application/json"
	structuredType = "application/cloudevents+json; charset=utf-8"
)

// CloudEvent returns ev as structured CloudEvents 1.0 JSON with the extensions path, namespace
// and sequence (20 digits). JSON data is embedded byte for byte, text as a string, everything
// else as data_base64. Extensions whose name CloudEvents does not allow (not [a-z0-9], or an
// attribute's own) are left out.
func CloudEvent(ev *sluice.Event) []byte {
	o := newObject(len(ev.Data) + 640)
	o = o.str("specversion", "1.0")
	for _, a := range attributes(ev) {
		o = o.opt(a.name, a.value)
	}
	if len(ev.Data) > 0 {
		o = o.opt("datacontenttype", contentType(ev))
	}
	return appendData(o, "data", ev).end()
}

type attribute struct{ name, value string }

// attributes returns what both CloudEvents envelopes carry, but for the data's content type. The
// order is always the same, so that all attempts at an event have the same body.
func attributes(ev *sluice.Event) []attribute {
	when := ""
	if t := cmpTime(ev.Time, ev.Stored); !t.IsZero() {
		when = t.UTC().Format(time.RFC3339Nano)
	}
	list := make([]attribute, 0, 9+len(ev.Extensions))
	list = append(list,
		attribute{"id", ev.ID},
		attribute{"source", cmp.Or(ev.Source, "/"+ev.Namespace)},
		attribute{"type", cmp.Or(ev.Type, sluice.DefaultType)},
		attribute{"time", when},
		attribute{"subject", ev.Subject},
		attribute{"dataschema", ev.DataSchema},
		attribute{"path", string(ev.Path)},
		attribute{"namespace", ev.Namespace},
		attribute{"sequence", sequence(ev.Seq)},
	)
	if len(ev.Extensions) == 0 {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(ev.Extensions)) {
		if isExtension(name) {
			list = append(list, attribute{name, ev.Extensions[name]})
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
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// sequence is empty for an event that is not stored, such as a sample.
func sequence(seq uint64) string {
	if seq == 0 {
		return ""
	}
	digits := strconv.FormatUint(seq, 10)
	return strings.Repeat("0", 20-len(digits)) + digits
}

func contentType(ev *sluice.Event) string { return cmp.Or(ev.ContentType, jsonType) }

// cmpTime returns the first time that is not zero.
func cmpTime(first, second time.Time) time.Time {
	if first.IsZero() {
		return second
	}
	return first
}

// appendData adds the event's data under name, or under name_base64 if JSON cannot hold it as it
// is; nothing if there is none.
func appendData(o object, name string, ev *sluice.Event) object {
	if len(ev.Data) == 0 {
		return o
	}
	if data := ev.JSONData(); data != nil {
		return o.raw(name, data)
	}
	if strings.HasPrefix(strings.ToLower(ev.ContentType), "text/") && !ev.IsJSON() && utf8.Valid(ev.Data) {
		return o.str(name, string(ev.Data))
	}
	return o.base64(name+"_base64", ev.Data)
}

// appendPayload is appendData for the envelopes whose payload is always there.
func appendPayload(o object, ev *sluice.Event) object {
	if len(ev.Data) == 0 {
		return o.raw("payload", []byte("null"))
	}
	return appendData(o, "payload", ev)
}

// setBinary writes the event's attributes into ce-* headers, percent-encoded as the CloudEvents
// HTTP binding (3.1.3.2) has it.
func setBinary(header http.Header, ev *sluice.Event) {
	header.Set("Ce-Specversion", "1.0")
	for _, a := range attributes(ev) {
		if a.value != "" {
			header.Set("Ce-"+a.name, percent(a.value, `"%`))
		}
	}
}

// percent encodes spaces, what is in also, and everything outside printable ASCII.
func percent(s, also string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(also, c) < 0 }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	out := append(make([]byte, 0, len(s)+16), s[:i]...)
	for ; i < len(s); i++ {
		if c := s[i]; plain(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&0xf])
		}
	}
	return string(out)
}

// fact returns the flat body of S0-30…39. entity is the event's subject or else its path, hlc the
// extension of that name or "<unix ms>.<seq>"; fact_id is the extension resourceid, if it is there.
func fact(sub *sluice.Subscription, ev *sluice.Event) []byte {
	hlc := ev.Extensions["hlc"]
	if hlc == "" {
		hlc = strconv.FormatInt(cmpTime(ev.Stored, ev.Time).UnixMilli(), 10) + "." + strconv.FormatUint(ev.Seq, 10)
	}
	o := newObject(len(ev.Data) + 640)
	o = o.str("subscription_id", sub.ID)
	o = o.str("event_id", ev.ID)
	o = o.str("event_type", ev.Type)
	o = o.str("entity", cmp.Or(ev.Subject, string(ev.Path)))
	o = o.str("scope", ev.Namespace)
	o = o.opt("fact_id", ev.Extensions["resourceid"])
	o = o.str("hlc", hlc)
	o = appendPayload(o, ev)
	return o.str("idempotency_key", ev.ID).end()
}

// attempt returns the body of S4-54…57, signed inside with secret (register C05). resourceType
// and resourceId are the extensions of those names or else the path's first and last segment,
// producedBy the extension authtype or else "system", version the extension schemaversion or else
// "1". It returns an error if the data has no canonical form: it repeats a name, for example.
func attempt(ev *sluice.Event, number int, at time.Time, secret string) ([]byte, error) {
	segments := strings.Split(strings.TrimPrefix(string(ev.Path), "/"), "/")
	event := newObject(len(ev.Data) + 512)
	event = event.str("eventId", ev.ID)
	event = event.str("eventType", ev.Type)
	event = event.str("resourceType", cmp.Or(ev.Extensions["resourcetype"], segments[0]))
	event = event.str("resourceId", cmp.Or(ev.Extensions["resourceid"], segments[len(segments)-1]))
	event = event.str("projectId", ev.Namespace)
	event = event.time("createdAt", cmpTime(ev.Time, ev.Stored))
	event = event.str("producedBy", cmp.Or(ev.Extensions["authtype"], "system"))
	event = appendPayload(event, ev)
	event = event.str("version", cmp.Or(ev.Extensions["schemaversion"], "1"))

	o := newObject(len(event) + 256)
	o = o.raw("event", event.end())
	o = o.integer("attempt", number)
	o = o.time("timestamp", at)
	unsigned := append(slices.Clip(o), '}')
	signature, err := webhook.SignAttempt(secret, unsigned)
	if err != nil {
		return nil, sluice.Errorf(sluice.Unprocessable, "the event's data cannot be signed inside the envelope attempt: no canonical JSON")
	}
	return o.str("signature", signature).end(), nil
}
