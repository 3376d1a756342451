package httpapi

import (
	"net/http"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// finish checks what every event must keep and gives it its path: the one that was named, or
// else its subject. Codes InvalidRequest; Forbidden for what only the server may say.
func finish(e *sluice.Event, path string) error {
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
	return e.Check()
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
