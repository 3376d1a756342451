package endpoint

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const (
	jsonType       = "application/json"
	structuredType = "application/cloudevents+json; charset=utf-8"
)

func contentType(ev *sluice.Event) string { return cmp.Or(ev.ContentType, jsonType) }

// cmpTime returns the first time that is not zero.
func cmpTime(first, second time.Time) time.Time {
	if first.IsZero() {
		return second
	}
	return first
}

// appendPayload adds the data as payload; null if there is none, because these envelopes always
// have a payload.
func appendPayload(o object, ev *sluice.Event) object {
	if len(ev.Data) == 0 {
		return o.raw("payload", []byte("null"))
	}
	return ev.AppendData(append(o, ','), "payload")
}

// setBinary sets ce-* headers for the event's attributes, percent-encoded as the CloudEvents HTTP
// binding (3.1.3.2) requires.
func setBinary(header http.Header, ev *sluice.Event) {
	header.Set("Ce-Specversion", "1.0")
	for _, a := range ev.Attributes() {
		header.Set("Ce-"+a.Name, percent(a.Value, `"%`))
	}
}

// percent percent-encodes spaces, the characters in also, and everything outside printable ASCII.
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

// Fact returns the flat body of S0-30…39 for an event of a subscription. entity is the event's
// Entity. hlc is the extension of that name, or else "<unix ms>.<seq>". fact_id is the extension
// resourceid, if the event has it. Members are in this order; readers must not rely on it. The
// caller owns the result.
//
//	{"subscription_id":"sub_1","event_id":"e1","event_type":"order.placed","entity":"/orders/42",
//	 "scope":"shop","hlc":"1767323045000.7","payload":{"total":12},"idempotency_key":"e1"}
func Fact(sub *sluice.Subscription, ev *sluice.Event) []byte {
	hlc := ev.Extensions["hlc"]
	if hlc == "" {
		hlc = strconv.FormatInt(cmpTime(ev.Stored, ev.Time).UnixMilli(), 10) + "." + strconv.FormatUint(ev.Seq, 10)
	}
	o := newObject(len(ev.Data) + 640)
	o = o.str("subscription_id", sub.ID)
	o = o.str("event_id", ev.ID)
	o = o.str("event_type", ev.Type)
	o = o.str("entity", ev.Entity())
	o = o.str("scope", ev.Namespace)
	o = o.opt("fact_id", ev.Extensions["resourceid"])
	o = o.str("hlc", hlc)
	o = appendPayload(o, ev)
	o = o.opt(sluice.DataRef, dataRef(sub, ev))
	return o.str("idempotency_key", ev.ID).end()
}

// producedBy returns which of the three producers of S4-13 an authtype stands for: a user, an agent
// or the system. Service accounts, and NATS events without an authtype, count as the system. An
// unknown authtype counts as a user.
func producedBy(authType string) string {
	switch authType {
	case sluice.AuthAgent:
		return sluice.AuthAgent
	case "", sluice.AuthSystem, sluice.AuthService, "api_key":
		return sluice.AuthSystem
	}
	return sluice.AuthUser
}

// attempt returns the body of S4-54…57, which contains a signature with secret (register C05).
// resourceType and resourceId are the extensions of those names, or else the first and the last
// segment of the path. producedBy is derived from the extension authtype. version is the extension
// schemaversion, or else "1". attempt returns an error if the data has no canonical JSON form, for
// example because it repeats a name. Code Unprocessable. The signature is the last member, and
// covers the canonical form of all others, so a receiver removes it and canonicalises the rest.
//
//	{"event":{"eventId":"e1","eventType":"order.placed","resourceType":"orders","resourceId":"42",
//	 "projectId":"shop","createdAt":"…","producedBy":"user","payload":{…},"version":"1"},
//	 "attempt":1,"timestamp":"…","signature":"…"}
func attempt(sub *sluice.Subscription, ev *sluice.Event, number int, at time.Time, secret string) ([]byte, error) {
	segments := strings.Split(strings.TrimPrefix(string(ev.Path), "/"), "/")
	event := newObject(len(ev.Data) + 512)
	event = event.str("eventId", ev.ID)
	event = event.str("eventType", ev.Type)
	event = event.str("resourceType", cmp.Or(ev.Extensions["resourcetype"], segments[0]))
	event = event.str("resourceId", cmp.Or(ev.Extensions["resourceid"], segments[len(segments)-1]))
	event = event.str("projectId", ev.Namespace)
	event = event.time("createdAt", cmpTime(ev.Time, ev.Stored))
	event = event.str("producedBy", producedBy(ev.Extensions[sluice.AuthType]))
	event = appendPayload(event, ev)
	event = event.opt(sluice.DataRef, dataRef(sub, ev))
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
