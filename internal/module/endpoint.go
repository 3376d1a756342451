package module

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Endpoint is the mode of a handler without a program. Its events are sent to a URL.
const Endpoint Mode = "endpoint"

// setEndpoint sets the URL to which the events go, from the name of one of the module's endpoints
// (S4-30: handler).
func (h *Handler) setEndpoint(in *encodedEvent, endpoints map[string]string) error {
	others := *in
	others.EventType, others.Filter, others.ID, others.Pattern, others.Endpoint = "", nil, "", "", ""
	others.Timeout, others.Concurrency, others.Retry, others.Envelope = 0, 0, sluice.Retry{}, ""
	if !reflect.DeepEqual(&others, &encodedEvent{}) {
		return errors.New("an event with an endpoint has no handler, and no settings of a program")
	}
	url, ok := endpoints[in.Endpoint]
	if !ok {
		return fmt.Errorf("endpoint %q is not in endpoints", in.Endpoint)
	}
	h.ID, h.Mode, h.Endpoint, h.URL = cmp.Or(h.ID, in.Endpoint), Endpoint, in.Endpoint, url
	return h.checkID()
}

// Sink returns the endpoint of the handler's subscription: its URL, or its program. Exactly one of
// URL and Exec is set.
func (h *Handler) Sink() sluice.Endpoint {
	if h.Mode == Endpoint {
		return sluice.Endpoint{URL: h.URL}
	}
	return sluice.Endpoint{Exec: h.Command()}
}
