package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const unsafeProducers = "/v1/producers/unsafe"

// UnsafeProducers returns the producers that are marked unsafe because of causation loops, most
// recent first. Cursor is Page.Next of the previous page, or empty.
func (c *Client) UnsafeProducers(ctx context.Context, cursor string) (Page[sluice.Unsafe], error) {
	return list[sluice.Unsafe](ctx, c, unsafeProducers, "producers", params("cursor", cursor))
}

// ClearProducer clears the unsafe mark of a producer. Codes: NotFound if it has none; Conflict if
// another loop was detected in the meantime.
func (c *Client) ClearProducer(ctx context.Context, producer string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(unsafeProducers, producer)}, nil)
	return err
}
