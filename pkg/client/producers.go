package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const unsafeProducers = "/v1/producers/unsafe"

// UnsafeProducers returns the producers whose events came of themselves, those that were marked
// last first; cursor is Page.Next of the part before, or empty.
func (c *Client) UnsafeProducers(ctx context.Context, cursor string) (Page[sluice.Unsafe], error) {
	return list[sluice.Unsafe](ctx, c, unsafeProducers, "producers", params("cursor", cursor))
}

// ClearProducer removes the mark of a producer. Codes: NotFound if it has none; Conflict if
// another loop was found meanwhile.
func (c *Client) ClearProducer(ctx context.Context, producer string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(unsafeProducers, producer)}, nil)
	return err
}
