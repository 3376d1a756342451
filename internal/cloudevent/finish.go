package cloudevent

import (
	"net/http"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// finish checks the rules for all events and sets the path: the given path, or else the subject.
// Codes InvalidRequest; Forbidden for reserved values.
func finish(e *sluice.Event, path string) error {
	if path == "" {
		if e.Subject == "" {
			return sluice.Errorf(sluice.InvalidRequest, "the event has neither path nor subject; set a path such as \"/orders/42\"").With("field", "path")
		}
		path = "/" + strings.TrimPrefix(e.Subject, "/")
	}
	var err error
	if e.Path, err = sluice.ParsePath(path); err != nil {
		return err
	}
	return e.Check()
}

// InheritTrace sets the request's trace context (traceparent, tracestate) on events without one. It
// sets tracestate only beside the traceparent of the same request: the two belong together. Code
// InvalidRequest for an invalid header.
func InheritTrace(header http.Header, events []sluice.Event) error {
	if header.Get("Traceparent") == "" && header.Get("Tracestate") == "" {
		return nil
	}
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
