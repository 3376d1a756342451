package httpapi

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// finish checks what every event must keep and gives it its path: the one that was named, or
// else its subject. Codes InvalidRequest; Forbidden for what only the server may say.
func finish(e *sluice.Event, path string) error {
	if err := sluice.CheckEventID(e.ID); err != nil {
		return err
	}
	texts := [][2]string{{"type", e.Type}, {"source", e.Source}, {"subject", e.Subject}, {"dataschema", e.DataSchema}, {"datacontenttype", e.ContentType}}
	for _, t := range texts {
		if err := checkText(t[0], t[1]); err != nil {
			return err
		}
	}
	if path == "" {
		if e.Subject == "" {
			return sluice.Errorf(sluice.InvalidRequest, "the event has neither path nor subject; say where it lives, such as \"/orders/42\"")
		}
		path = "/" + strings.TrimPrefix(e.Subject, "/")
	}
	var err error
	if e.Path, err = sluice.ParsePath(path); err != nil {
		return err
	}
	switch {
	case e.Path.Reserved():
		return sluice.Errorf(sluice.Forbidden, "path %q: paths that start with /_sys or /$ are the server's own", path)
	case sluice.IsSystemType(e.Type):
		return sluice.Errorf(sluice.Forbidden, "type %q: types that start with sys. are the server's own", e.Type)
	}
	return nil
}

// checkText returns an error (InvalidRequest) unless the value of an attribute is text of a
// reasonable size, as CloudEvents defines its strings.
func checkText(name, value string) error {
	control := func(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }
	if len(value) > maxAttribute || !utf8.ValidString(value) || strings.ContainsFunc(value, control) {
		return sluice.Errorf(sluice.InvalidRequest, "%s: use at most %d bytes of UTF-8 without control characters", name, maxAttribute)
	}
	return nil
}

// inheritTrace gives the request's trace context to the events that bring none of their own.
func inheritTrace(header http.Header, events []sluice.Event) error {
	for _, name := range []string{"traceparent", "tracestate"} {
		value := header.Get(name)
		for i := range events {
			if value == "" || events[i].Extensions[name] != "" || name == "tracestate" && header.Get("traceparent") != events[i].Extensions["traceparent"] {
				continue
			}
			if err := setExtension(&events[i], name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
