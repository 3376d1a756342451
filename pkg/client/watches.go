package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// WatchSpec is what can be said about a watch.
type WatchSpec struct {
	Pattern     sluice.Pattern  `json:"pattern"`
	Filter      sluice.Filter   `json:"filter"`
	Trigger     sluice.Trigger  `json:"trigger,omitempty"`  // edge
	Cooldown    sluice.Duration `json:"cooldown,omitempty"` // in which a path fires once; 0: none
	For         sluice.Duration `json:"for,omitempty"`      // for which the condition has to hold; 0: none
	Action      sluice.Action   `json:"action"`
	Description string          `json:"description,omitempty"`
}

// Watches returns the watches of a namespace that the caller may deal with, from the cursor on ("": the first).
func (c *Client) Watches(ctx context.Context, namespace, cursor string) (Page[sluice.Watch], error) {
	return list[sluice.Watch](ctx, c, join(namespaces, namespace, "watches"), "watches", params("cursor", cursor))
}

// Watch returns one watch. Code NotFound if there is none.
func (c *Client) Watch(ctx context.Context, namespace, id string) (sluice.Watch, error) {
	return send[sluice.Watch](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "watches", id)}, nil)
}

// PutWatch makes a watch, or puts it in the place of the one with its id, and returns it. One that says the same is left as it
// is; any other begins anew, with what comes from now on.
func (c *Client) PutWatch(ctx context.Context, namespace, id string, spec WatchSpec) (sluice.Watch, error) {
	return send[sluice.Watch](ctx, c, call{method: http.MethodPut, path: join(namespaces, namespace, "watches", id)}, spec)
}

// DeleteWatch cancels a watch. Code NotFound if there is none.
func (c *Client) DeleteWatch(ctx context.Context, namespace, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "watches", id)}, nil)
	return err
}

// TestWatch returns what a watch would have done with the events behind a sequence, 0 for the last 10,000 of the namespace. Its action is not looked
// at, and not done. Code WindowExceeded if what comes behind it is not kept any more.
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
