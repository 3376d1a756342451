package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// EventTypeSpec describes an event type.
type EventTypeSpec struct {
	Description   string            `json:"description,omitempty"`
	Schema        json.RawMessage   `json:"schema,omitempty"`
	SummaryFields []string          `json:"summary_fields,omitempty"`
	StaticLabels  map[string]string `json:"static_labels,omitempty"`
}

// EventTypes returns a page of the event types in a namespace's catalogue, starting at the cursor
// ("" for the first page).
func (c *Client) EventTypes(ctx context.Context, namespace, cursor string) (Page[sluice.EventType], error) {
	return list[sluice.EventType](ctx, c, join(namespaces, namespace, "event-types"), "event_types", params("cursor", cursor))
}

// EventType returns one event type. Code NotFound if it does not exist.
func (c *Client) EventType(ctx context.Context, namespace, eventType string) (sluice.EventType, error) {
	return send[sluice.EventType](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "event-types", eventType)}, nil)
}

// PutEventType creates or updates an event type and returns it. A revision above 0 must be the
// current one, otherwise the code is RevisionMismatch.
func (c *Client) PutEventType(ctx context.Context, namespace, eventType string, spec EventTypeSpec, revision uint64) (sluice.EventType, error) {
	req := call{method: http.MethodPut, path: join(namespaces, namespace, "event-types", eventType)}
	if revision > 0 {
		req.header = map[string]string{"If-Match": strconv.Quote(strconv.FormatUint(revision, 10))}
	}
	return send[sluice.EventType](ctx, c, req, spec)
}

// DeleteEventType deletes an event type. Code NotFound if it does not exist.
func (c *Client) DeleteEventType(ctx context.Context, namespace, eventType string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "event-types", eventType)}, nil)
	return err
}
