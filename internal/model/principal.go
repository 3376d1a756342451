package model

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

type callerKey struct{}

// WithCaller returns a context that carries the caller of its request.
func WithCaller(ctx context.Context, c sluice.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of the context's request: the zero Caller if it has none.
func CallerFrom(ctx context.Context) sluice.Caller {
	c, _ := ctx.Value(callerKey{}).(sluice.Caller)
	return c
}
