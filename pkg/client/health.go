package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ProbeSubscription makes the next probe of an open breaker due at once, with an event if one waits. It returns the replay that does so;
// code Conflict unless the subscription is active.
func (c *Client) ProbeSubscription(ctx context.Context, id string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "probe"), once: true}, nil)
}

// RetryLanes makes all parked lanes of a subscription due at once, and retries held ones starting at attempt 1. An open breaker
// probes. It returns the replay that does so; code Conflict unless the subscription is active.
func (c *Client) RetryLanes(ctx context.Context, id string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "retry"), once: true}, nil)
}

// HealthQuery filters the health of subscriptions; all fields are optional.
type HealthQuery struct {
	Namespace string
	Health    []sluice.Health // any of them
	Limit     int
	Cursor    string // HealthPage.Next of the previous page
}

// HealthPage is one page of the health of subscriptions.
type HealthPage struct {
	Subscriptions []sluice.SubscriptionHealth `json:"subscriptions"`
	Counts        map[sluice.Health]int       `json:"counts"` // of all that you manage, by health
	Next          string                      `json:"next_cursor"`
}

// Health returns the subscriptions that you manage by the health of their deliveries, worst first.
func (c *Client) Health(ctx context.Context, q HealthQuery) (HealthPage, error) {
	names := make([]string, len(q.Health))
	for i, h := range q.Health {
		names[i] = string(h)
	}
	query := params("namespace", q.Namespace, "health", strings.Join(names, ","), "limit", number(q.Limit), "cursor", q.Cursor)
	return send[HealthPage](ctx, c, call{method: http.MethodGet, path: "/v1/health/subscriptions", query: query}, nil)
}
