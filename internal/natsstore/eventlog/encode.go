package eventlog

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// The trace context has headers of its own, in which NATS clients expect it; in the event it is an
// extension.
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

const upperHex = "0123456789ABCDEF"

// message returns the event as a CloudEvents message in binary mode: attributes in headers, data in
// the body. eventOf is its inverse. Empty attributes are omitted; eventOf sets the defaults.
func message(names streams.Names, ns string, e *sluice.Event) *nats.Msg {
	const attributes = 10 // with the stamp
	h := make(nats.Header, attributes+len(e.Extensions))
	values := make([]string, 0, attributes+len(e.Extensions)) // backing array for the values of all headers
	put := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set := func(name, value string) {
		if value != "" {
			put(name, escape(value))
		}
	}
	set(streams.HeaderMsgID, e.ID)
	set(streams.HeaderSpecVersion, "1.0")
	set(streams.HeaderID, e.ID)
	set(streams.HeaderType, e.Type)
	set(streams.HeaderSource, e.Source)
	set(streams.HeaderSubject, e.Subject)
	set(streams.HeaderDataSchema, e.DataSchema)
	if !e.Time.IsZero() {
		set(streams.HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	}
	if e.ContentType != "" {
		put(streams.HeaderContentType, e.ContentType)
	}
	for name, value := range e.Extensions {
		if name != headerTraceParent && name != headerTraceState {
			name = streams.HeaderPrefix + name
		}
		put(name, escape(value))
	}
	return &nats.Msg{Subject: names.Subject(ns, e.Path), Header: h, Data: e.Data}
}

// checkEvent returns an error with code InvalidRequest if the event cannot be encoded as a message.
func checkEvent(e *sluice.Event) error {
	if e.ID == "" {
		return sluice.Errorf(sluice.InvalidRequest, "an event needs an id")
	}
	path, err := sluice.ParsePath(string(e.Path))
	if err != nil {
		return err
	}
	if err := checkWritable(path); err != nil {
		return err
	}
	for name := range e.Extensions {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || isAttribute(name) {
			return sluice.Errorf(sluice.InvalidRequest, "extension %q: use a-z and 0-9, and no name that CloudEvents has", name)
		}
	}
	if strings.ContainsFunc(e.ContentType, func(r rune) bool { return r < ' ' || r > '~' }) {
		return sluice.Errorf(sluice.InvalidRequest, "content type %q is not printable ASCII", e.ContentType)
	}
	return nil
}

// isAttribute reports whether the name is defined by CloudEvents.
func isAttribute(name string) bool {
	switch name {
	case "id", "type", "source", "specversion", "time", "subject", "dataschema", "datacontenttype", "data":
		return true
	}
	return false
}

// escape encodes a header value as the CloudEvents bindings define: space, double quote, percent
// and everything that is not printable ASCII become %XX.
func escape(s string) string {
	plain := func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String()
}

// unescape is the inverse of escape. It also accepts forms of other writers: it removes double
// quotes around the value, and keeps a percent sign that does not start %XX.
func unescape(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(s[1 : len(s)-1])
	}
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if raw, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.Write(raw)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
