package model

import (
	"context"
	"time"
)

// KeptAnswer is the stored response to a request with an Idempotency-Key. Without a status, the
// request is in flight.
type KeptAnswer struct {
	Request string              `json:"request"` // hash of the request
	Begun   time.Time           `json:"begun"`
	Status  int                 `json:"status,omitempty"`
	Header  map[string][]string `json:"header,omitempty"`
	Body    []byte              `json:"body,omitempty"`
}

type requestKey struct{}

// WithRequestID returns a context that carries the ID of its request, for the ledger's entries and
// the log's lines.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the ID of the context's request, "" if it has none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
