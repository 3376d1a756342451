package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const consumers = "consumers"

// ConsumersQuery says which wake consumers are wanted; everything is optional.
type ConsumersQuery struct {
	State  sluice.WakeState // all but removed ones without it
	Limit  int
	Cursor string // Page.Next of the part before
}

// Consumers returns the consumers of a subscription of mode wake, by path. How many there are of each state, Status
// says. Code Unprocessable if it is of another mode.
func (c *Client) Consumers(ctx context.Context, id string, q ConsumersQuery) (Page[sluice.WakeConsumer], error) {
	query := params("state", string(q.State), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.WakeConsumer](ctx, c, join(subscriptions, id, consumers), consumers, query)
}

// Consumer returns one of them, named by its id or by the path of its stream, with the ends of its streams and the
// attempts of its last wake. Code NotFound if there is none.
func (c *Client) Consumer(ctx context.Context, id, consumer string) (sluice.WakeConsumer, error) {
	return send[sluice.WakeConsumer](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, consumers, consumer)}, nil)
}
