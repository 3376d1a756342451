package sluice

import (
	"context"
	"time"
)

// KeptAnswer is what a request with an Idempotency-Key was answered. Without a status it is under way.
type KeptAnswer struct {
	Request string              `json:"request"` // hash of what was sent
	Begun   time.Time           `json:"begun"`
	Status  int                 `json:"status,omitempty"`
	Header  map[string][]string `json:"header,omitempty"`
	Body    []byte              `json:"body,omitempty"`
}

type requestKey struct{}

// WithRequestID returns a context that carries the id of the request that it serves, for what
// is written about it: the ledger's entries and the log's lines.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id of the request that the context serves, "" if it serves none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
