package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// EventTypeSpec is what can be said about an event type.
type EventTypeSpec struct {
	Description   string            `json:"description,omitempty"`
	Schema        json.RawMessage   `json:"schema,omitempty"`
	SummaryFields []string          `json:"summary_fields,omitempty"`
	StaticLabels  map[string]string `json:"static_labels,omitempty"`
}

// EventTypes returns the event types of a namespace's catalogue from the cursor on ("": the first).
func (c *Client) EventTypes(ctx context.Context, namespace, cursor string) (Page[sluice.EventType], error) {
	return list[sluice.EventType](ctx, c, join(namespaces, namespace, "event-types"), "event_types", params("cursor", cursor))
}

// EventType returns one event type. Code NotFound if there is none.
func (c *Client) EventType(ctx context.Context, namespace, eventType string) (sluice.EventType, error) {
	return send[sluice.EventType](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "event-types", eventType)}, nil)
}

// PutEventType makes or changes an event type and returns it. With a revision above 0, code
// RevisionMismatch if it is not the stored one.
func (c *Client) PutEventType(ctx context.Context, namespace, eventType string, spec EventTypeSpec, revision uint64) (sluice.EventType, error) {
	req := call{method: http.MethodPut, path: join(namespaces, namespace, "event-types", eventType)}
	if revision > 0 {
		req.header = map[string]string{"If-Match": strconv.Quote(strconv.FormatUint(revision, 10))}
	}
	return send[sluice.EventType](ctx, c, req, spec)
}

// DeleteEventType deletes an event type. Code NotFound if there is none.
func (c *Client) DeleteEventType(ctx context.Context, namespace, eventType string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "event-types", eventType)}, nil)
	return err
}
