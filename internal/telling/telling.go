// Package telling knows the order in which a thing is done and told: first it is so, then it is told.
//
// Whoever hears of a change, and asks, finds it so or finds what came after it. That holds only if nobody tells of what is
// not written, so there is one function that does both, and a test (internal/telling_test.go) that finds whoever announces
// without it.
package telling

import "context"

// After writes, and then tells of what was written. It tells nothing if writing failed, and returns what write did.
func After[T any](ctx context.Context, write func(context.Context) (T, error), tell func(context.Context, T)) (T, error) {
	written, err := write(ctx)
	if err == nil {
		tell(ctx, written)
	}
	return written, err
}
