package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// StoryEvent is an event without its data.
type StoryEvent struct {
	ID    string      `json:"id"`
	Seq   uint64      `json:"seq"`
	Path  sluice.Path `json:"path"`
	Type  string      `json:"type"`
	Time  time.Time   `json:"time"`
	Cause string      `json:"caused_by,omitempty"` // ID of the event that caused it
}

// EventDelivery is the delivery of an event to one subscription. Its attempts are in Runs.
type EventDelivery struct {
	Delivery

	Subscription string        `json:"subscription"`
	Runs         []DeliveryRun `json:"runs"` // oldest first
}

// DeliveryRun is the attempts of the original delivery, or of one replay.
type DeliveryRun struct {
	Kind     string           `json:"kind"` // original, replay or redrive
	Replay   string           `json:"replay,omitempty"`
	Attempts []sluice.Attempt `json:"attempts"`
}

// EventDeliveries is the outcome of an event for the subscriptions that you manage.
type EventDeliveries struct {
	Event        StoryEvent      `json:"event"`
	Causes       []StoryEvent    `json:"causes"`       // nearest first
	Consequences []StoryEvent    `json:"consequences"` // later events that it caused
	Complete     bool            `json:"complete"`     // all later events were searched for consequences
	Deliveries   []EventDelivery `json:"deliveries"`   // by the IDs of the subscriptions
	Next         string          `json:"next_cursor"`
}

// EventDeliveriesQuery selects a part of the deliveries of an event; all fields are optional.
type EventDeliveriesQuery struct {
	Limit  int
	Cursor string // EventDeliveries.Next of the previous page
}

// EventDeliveries explains an event, given by its ID or sequence, to every push subscription that you manage. The first page has
// its causes and consequences. Code NotFound if the event is unknown.
func (c *Client) EventDeliveries(ctx context.Context, ns, event string, q EventDeliveriesQuery) (EventDeliveries, error) {
	req := call{method: http.MethodGet, path: join(namespaces, ns, "events", event, "deliveries"), query: params("limit", number(q.Limit), "cursor", q.Cursor)}
	return send[EventDeliveries](ctx, c, req, nil)
}
