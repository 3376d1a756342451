package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// WatchSpec describes a watch.
type WatchSpec struct {
	Pattern sluice.Pattern `json:"pattern"`
	Filter  sluice.Filter  `json:"filter"`
	Trigger sluice.Trigger `json:"trigger,omitempty"` // default edge
	// Interval in which a path fires at most once; 0: none.
	Cooldown    sluice.Duration `json:"cooldown,omitempty"`
	For         sluice.Duration `json:"for,omitempty"` // how long the condition must hold; 0: none
	Action      sluice.Action   `json:"action"`
	Description string          `json:"description,omitempty"`
}

// Watches returns a page of the watches of a namespace that the caller manages, starting at the
// cursor ("" for the first page).
func (c *Client) Watches(ctx context.Context, namespace, cursor string) (Page[sluice.Watch], error) {
	return list[sluice.Watch](ctx, c, join(namespaces, namespace, "watches"), "watches", params("cursor", cursor))
}

// Watch returns one watch. Code NotFound if it does not exist.
func (c *Client) Watch(ctx context.Context, namespace, id string) (sluice.Watch, error) {
	return send[sluice.Watch](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "watches", id)}, nil)
}

// PutWatch creates a watch, or replaces the one with this ID, and returns it. An identical watch is
// left unchanged; a different one starts anew with the events from then on.
func (c *Client) PutWatch(ctx context.Context, namespace, id string, spec WatchSpec) (sluice.Watch, error) {
	return send[sluice.Watch](ctx, c, call{method: http.MethodPut, path: join(namespaces, namespace, "watches", id)}, spec)
}

// DeleteWatch cancels a watch. Code NotFound if it does not exist.
func (c *Client) DeleteWatch(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "watches", id)}, nil)
	return err
}

// TestWatch simulates a watch over the events after a sequence, or over the last 10,000 events of
// the namespace if since is 0. Its action is neither checked nor performed. Code WindowExceeded if
// the events after the sequence are no longer stored.
func (c *Client) TestWatch(ctx context.Context, namespace string, spec WatchSpec, since uint64) (sluice.WatchTrial, error) {
	return send[sluice.WatchTrial](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "watches", "test")}, struct {
		Pattern  sluice.Pattern  `json:"pattern"`
		Filter   sluice.Filter   `json:"filter"`
		Trigger  sluice.Trigger  `json:"trigger,omitempty"`
		Cooldown sluice.Duration `json:"cooldown,omitempty"`
		For      sluice.Duration `json:"for,omitempty"`
		Since    uint64          `json:"since,omitempty"`
	}{spec.Pattern, spec.Filter, spec.Trigger, spec.Cooldown, spec.For, since})
}
