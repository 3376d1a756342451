package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// SeekSubscription moves a subscription to another position in the log and returns it. Positions
// are a sequence, an event ID, an RFC 3339 time, an age such as "10m", "all", "new" or
// "last_per_path".
func (c *Client) SeekSubscription(ctx context.Context, id, to string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "seek")}, map[string]string{"to": to})
}

// ReplayRequest selects the past events to replay.
type ReplayRequest struct {
	// Inclusive: a sequence, an event ID or a time; default: the oldest stored event.
	From string `json:"from,omitempty"`
	// Inclusive, in the same format; default: the newest event.
	To       string      `json:"to,omitempty"`
	Types    []string    `json:"types,omitempty"`
	EventIDs []string    `json:"event_ids,omitempty"`
	Rate     sluice.Rate `json:"rate,omitzero"` // request rate; default: the subscription's
}

// Replay starts a replay and returns it.
func (c *Client) Replay(ctx context.Context, id string, req ReplayRequest) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "replay"), once: true}, req)
}

// ReplayCount is the number of events that a replay would deliver.
type ReplayCount struct {
	Count uint64 `json:"count"`
	// False for an estimate, or if the filter cannot be evaluated on some events.
	Exact bool `json:"exact"`

	// Number of examined events on which the filter cannot be evaluated; not in Count.
	Unevaluated uint64 `json:"unevaluated,omitempty"`
}

// CountReplay returns the number of events that a replay would deliver, without delivering them.
func (c *Client) CountReplay(ctx context.Context, id string, req ReplayRequest) (ReplayCount, error) {
	dry := struct {
		ReplayRequest

		DryRun bool `json:"dry_run"`
	}{req, true}
	return send[ReplayCount](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "replay")}, dry)
}

// Replays returns the replays of a subscription, newest first.
func (c *Client) Replays(ctx context.Context, id string) ([]sluice.Replay, error) {
	page, err := list[sluice.Replay](ctx, c, join(subscriptions, id, "replays"), "replays", params())
	return page.Items, err
}

// GetReplay returns a replay with its progress. Code NotFound if it does not exist.
func (c *Client) GetReplay(ctx context.Context, id, replay string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "replays", replay)}, nil)
}

// CancelReplay cancels a replay and returns it; deliveries in flight are completed.
func (c *Client) CancelReplay(ctx context.Context, id, replay string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "replays", replay, "cancel")}, nil)
}
