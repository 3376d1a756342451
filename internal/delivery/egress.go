package delivery

import (
	"context"
	"sync/atomic"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// egress is the way of a runner's events to the endpoint. Once access was lost, nothing leaves until
// the runner opens again.
type egress struct {
	outbound *outbound
	lost     atomic.Pointer[sluice.Subscription] // the settings with which access was lost since opening
	sending  atomic.Int32                        // attempts in flight
}

func (e *egress) open() { e.lost.Store(nil) }

// decide asks the gate about an event without sending it.
func (e *egress) decide(sub *sluice.Subscription, ev *sluice.Event) model.Decision {
	if e.lost.Load() != nil {
		return model.Lost
	}
	return e.note(sub, e.outbound.decide(sub, ev))
}

// send is outbound.send, unless access was lost.
func (e *egress) send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) (sluice.Attempt, model.Decision) {
	if e.lost.Load() != nil {
		return sluice.Attempt{}, model.Lost
	}
	e.sending.Add(1)
	a, d := e.outbound.send(ctx, sub, ev, number, more...)
	e.sending.Add(-1)
	return a, e.note(sub, d)
}

// note records that access was lost, and returns the decision.
func (e *egress) note(sub *sluice.Subscription, d model.Decision) model.Decision {
	if d == model.Lost {
		e.lost.Store(sub)
	}
	return d
}
