package model

import (
	"context"
	"time"
)

// KeptAnswer is the stored response to a request with an Idempotency-Key. Without a status, the
// request is in flight, or has failed.
type KeptAnswer struct {
	Request string              `json:"request"` // hash of the request
	Begun   time.Time           `json:"begun"`
	Seed    string              `json:"seed,omitempty"`   // of the IDs of its events: a UUID of version 7
	Failed  bool                `json:"failed,omitempty"` // it may have had its effect
	Status  int                 `json:"status,omitempty"`
	Header  map[string][]string `json:"header,omitempty"`
	Body    []byte              `json:"body,omitempty"`
}

type requestKey struct{}

type seedKey struct{}

// WithSeed returns a context that carries the seed of a request with an Idempotency-Key, from which
// the IDs of its events are derived.
func WithSeed(ctx context.Context, seed string) context.Context {
	return context.WithValue(ctx, seedKey{}, seed)
}

// SeedFrom returns the seed of a request; "" if it has none.
func SeedFrom(ctx context.Context) string {
	seed, _ := ctx.Value(seedKey{}).(string)
	return seed
}

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
