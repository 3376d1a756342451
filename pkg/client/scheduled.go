package client

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ScheduledEvent is an event that is stored at a time.
type ScheduledEvent struct {
	ID        string           `json:"id"`
	Path      sluice.Path      `json:"path"`
	Type      string           `json:"type"`
	DeliverAt time.Time        `json:"deliver_at"`
	State     string           `json:"state"` // waiting; publishing: it is too late to cancel it
	CreatedBy sluice.Principal `json:"created_by"`
	CreatedAt time.Time        `json:"created_at"`
	Event     sluice.Event     `json:"event"`
}

// Held says when an event is stored.
type Held struct {
	ID        string      `json:"id"`
	Path      sluice.Path `json:"path"`
	Seq       uint64      `json:"seq,omitempty"` // its place if it is stored: its time has passed
	DeliverAt time.Time   `json:"deliver_at,omitzero"`
	Duplicate bool        `json:"duplicate"` // an event of this id was taken before; DeliverAt or Seq are its
}

// Schedule has an event stored in a namespace at a time, at once if that has passed. An ID is made up where it is empty, so
// that a repeated request has nothing stored twice. Code QuotaExceeded if too many wait.
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

// ScheduledQuery says which events are wanted; everything is optional.
type ScheduledQuery struct {
	Pattern sluice.Pattern
	Limit   int    // at most 1000; the server's default is 100
	Cursor  string // Page.Next of the part before
}

// Scheduled returns the events of a namespace that are not stored yet, the next first.
func (c *Client) Scheduled(ctx context.Context, namespace string, q ScheduledQuery) (Page[ScheduledEvent], error) {
	query := params("pattern", string(q.Pattern), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[ScheduledEvent](ctx, c, join(namespaces, namespace, "scheduled"), "scheduled", query)
}

// GetScheduled returns an event that is not stored yet. Code NotFound.
func (c *Client) GetScheduled(ctx context.Context, namespace, id string) (ScheduledEvent, error) {
	return send[ScheduledEvent](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "scheduled", id)}, nil)
}

// CancelScheduled has an event not stored: when there is no error, it never is. Codes NotFound if there is no such event, or not any more; Conflict
// if it is being published.
func (c *Client) CancelScheduled(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "scheduled", id)}, nil)
	return err
}
