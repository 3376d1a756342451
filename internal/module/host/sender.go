package host

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Attempts makes attempts by requests.
type Attempts interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt
}

// Sender makes each attempt in the way of its subscription: by a program of a module, or by a
// request.
type Sender struct {
	Programs *Host
	Requests Attempts
}

// Send makes an attempt. It sets all fields but the verdict. A program gets only the first event.
func (s Sender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	if len(sub.Endpoint.Exec) > 0 {
		return s.Programs.Send(ctx, sub, ev, number)
	}
	return s.Requests.Send(ctx, sub, ev, number, more...)
}
