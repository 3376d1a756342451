package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

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
