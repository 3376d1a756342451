package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const consumers = "consumers"

// ConsumersQuery filters wake consumers; all fields are optional.
type ConsumersQuery struct {
	State  sluice.WakeState // default: all consumers that are not removed
	Limit  int
	Cursor string // Page.Next of the previous page
}

// Consumers returns the consumers of a subscription of mode wake, by path. Status returns their
// number in each state. Code Unprocessable if the subscription has another mode.
func (c *Client) Consumers(ctx context.Context, id string, q ConsumersQuery) (Page[sluice.WakeConsumer], error) {
	query := params("state", string(q.State), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.WakeConsumer](ctx, c, join(subscriptions, id, consumers), consumers, query)
}

// Consumer returns a consumer, given by its ID or by the path of its stream, with the ends of its
// streams and the attempts of its last wake. Code NotFound if it does not exist.
func (c *Client) Consumer(ctx context.Context, id, consumer string) (sluice.WakeConsumer, error) {
	return send[sluice.WakeConsumer](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, consumers, consumer)}, nil)
}
