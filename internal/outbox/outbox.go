// Package outbox defines the order of a change and its system event: first the change is stored,
// then the event is published.
//
// A reader that learns of a change and reads the state therefore finds that change or a later one.
// This holds only if no event is published before its change is stored. So one function does both,
// and a test (internal/outbox_test.go) finds callers that publish without it.
package outbox

import "context"

// WriteThenPublish writes, and then publishes the announcement of the write. After a failed write
// it publishes nothing. It returns write's results.
func WriteThenPublish[T any](ctx context.Context, write func(context.Context) (T, error), tell func(context.Context, T)) (T, error) {
	written, err := write(ctx)
	if err == nil {
		tell(ctx, written)
	}
	return written, err
}
