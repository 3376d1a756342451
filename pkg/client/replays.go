package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// SeekSubscription lets a subscription go on from another place of its log and returns it: a
// sequence, an event's id, an RFC 3339 time, "all" or "new".
func (c *Client) SeekSubscription(ctx context.Context, id, to string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "seek")}, map[string]string{"to": to})
}

// ReplayRequest says which past events are to be delivered again.
type ReplayRequest struct {
	From     string      `json:"from,omitempty"` // a sequence, an event's id or a time; the beginning of what is kept
	To       string      `json:"to,omitempty"`   // the same, inclusive; what is there now
	Types    []string    `json:"types,omitempty"`
	EventIDs []string    `json:"event_ids,omitempty"`
	Rate     sluice.Rate `json:"rate,omitzero"` // of the requests; the subscription's
}

// Replay starts a replay and returns it.
func (c *Client) Replay(ctx context.Context, id string, req ReplayRequest) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "replay"), once: true}, req)
}

// ReplayCount is how many events a replay would deliver.
type ReplayCount struct {
	Count uint64 `json:"count"`
	Exact bool   `json:"exact"` // false: an estimate, or the filter cannot be evaluated on some events

	Unevaluated uint64 `json:"unevaluated,omitempty"` // events on which it cannot, of those that were looked at; not in Count
}

// CountReplay returns how many events a replay would deliver, and delivers none.
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

// GetReplay returns a replay with its progress. Code NotFound if there is none.
func (c *Client) GetReplay(ctx context.Context, id, replay string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "replays", replay)}, nil)
}

// CancelReplay ends a replay and returns it; what is under way is finished.
func (c *Client) CancelReplay(ctx context.Context, id, replay string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "replays", replay, "cancel")}, nil)
}
