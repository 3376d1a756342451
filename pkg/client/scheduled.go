package client

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ScheduledEvent is an event that will be stored at a set time.
type ScheduledEvent struct {
	ID        string      `json:"id"`
	Path      sluice.Path `json:"path"`
	Type      string      `json:"type"`
	DeliverAt time.Time   `json:"deliver_at"`
	// Waiting, publishing (cannot be cancelled), or retrying.
	State     string           `json:"state"`
	CreatedBy sluice.Principal `json:"created_by"`
	CreatedAt time.Time        `json:"created_at"`
	Event     sluice.Event     `json:"event"`
}

// Held is the result of Schedule.
type Held struct {
	ID   string      `json:"id"`
	Path sluice.Path `json:"path"`
	// Sequence of the event if its time has passed and it is stored.
	Seq       uint64    `json:"seq,omitempty"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	// An event with this ID was accepted before; DeliverAt or Seq belong to it.
	Duplicate bool `json:"duplicate"`
}

// Schedule stores an event in a namespace at a set time, or immediately if that has passed. An
// empty ID is replaced by a generated one, so that a retry stores nothing twice. Code QuotaExceeded
// if too many events are scheduled.
func (c *Client) Schedule(ctx context.Context, namespace string, ev sluice.Event, at time.Time) (Held, error) {
	ev.Extensions = maps.Clone(ev.Extensions)
	if ev.Extensions == nil {
		ev.Extensions = map[string]string{}
	}
	ev.Extensions[sluice.AttributeDeliverAt] = at.UTC().Format(time.RFC3339Nano)
	one, err := structured(&ev)
	if err != nil {
		return Held{}, err
	}
	reply, err := send[struct {
		Events [1]Held `json:"events"`
	}](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "events"), media: "application/cloudevents+json", body: one}, nil)
	return reply.Events[0], err
}

// ScheduledQuery filters scheduled events; all fields are optional.
type ScheduledQuery struct {
	Pattern sluice.Pattern
	Limit   int    // at most 1000; default 100
	Cursor  string // Page.Next of the previous page
}

// Scheduled returns the scheduled events of a namespace, soonest first.
func (c *Client) Scheduled(ctx context.Context, namespace string, q ScheduledQuery) (Page[ScheduledEvent], error) {
	query := params("pattern", string(q.Pattern), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[ScheduledEvent](ctx, c, join(namespaces, namespace, "scheduled"), "scheduled", query)
}

// GetScheduled returns a scheduled event. Code NotFound.
func (c *Client) GetScheduled(ctx context.Context, namespace, id string) (ScheduledEvent, error) {
	return send[ScheduledEvent](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "scheduled", id)}, nil)
}

// CancelScheduled cancels a scheduled event: without an error, it is never stored. Codes NotFound
// if the event is not scheduled, or no longer; Conflict if it is being published.
func (c *Client) CancelScheduled(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "scheduled", id)}, nil)
	return err
}
