package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLost tells the engine that the subscription has lost its access.
var errLost = errors.New("access lost")

// errOwner tells the engine that the subscription has a new owner, whom its runner does not know
// yet.
var errOwner = errors.New("the subscription has another owner")

// outbound is the only way by which content leaves, because it alone has the sender. It asks the
// gate about every attempt immediately before sending, and tracks the attempts in flight.
//
// It registers an attempt before it asks the gate. So if a revocation and an attempt coincide,
// either the gate knows the revocation, or Withdraw finds the attempt.
type outbound struct {
	gate   Gate // nil: everything may leave
	sender Sender

	under inflight.Set[*sluice.Subscription]

	mu     sync.Mutex
	ending map[string]*ending // subscriptions that are being cancelled
}

// ending is the cancellation of a subscription that lost its access.
type ending struct {
	over chan struct{}
	err  error // valid once over is closed
}

func newOutbound(gate Gate, sender Sender) *outbound {
	return &outbound{gate: gate, sender: sender, ending: map[string]*ending{}}
}

func (x *outbound) decide(sub *sluice.Subscription, ev *sluice.Event) model.Decision {
	if x.gate == nil {
		return model.Pass
	}
	return x.gate.Decide(sub, ev, time.Now())
}

// send makes an attempt if the gate lets the event pass. It sends the events of more with it, up to
// the first one that may not leave. For any decision but Pass, no attempt counts, even if one was
// in flight. The decision on an attempt that Withdraw cancelled, or that the sender did not make, is
// Lost or Undecided.
func (x *outbound) send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) (sluice.Attempt, model.Decision) {
	ctx, leave := x.under.Enter(ctx, sub)
	defer leave()
	if x.ends(sub.ID) {
		return sluice.Attempt{}, model.Lost
	}
	switch d := x.decide(sub, ev); {
	case d == model.Lost:
		x.cut(sub.ID)
		return sluice.Attempt{}, d
	case d != model.Pass:
		return sluice.Attempt{}, d
	}
	for i, other := range more {
		if x.decide(sub, other) != model.Pass {
			more = more[:i]
			break
		}
	}
	if inflight.WasCut(ctx) {
		return sluice.Attempt{}, x.again(sub, ev)
	}
	a := x.sender.Send(ctx, sub, ev, number, more...)
	if a.Outcome == "" || inflight.WasCut(ctx) && a.Outcome != sluice.Delivered {
		return sluice.Attempt{}, x.again(sub, ev)
	}
	return a, model.Pass
}

// again decides about an attempt that was cancelled or not made. If access is not lost after all,
// the attempt has to be repeated.
func (x *outbound) again(sub *sluice.Subscription, ev *sluice.Event) model.Decision {
	if x.decide(sub, ev) == model.Lost {
		x.cut(sub.ID)
		return model.Lost
	}
	return model.Undecided
}

// ends reports whether a subscription is being cancelled.
func (x *outbound) ends(subscription string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ending[subscription] != nil
}

// cut cancels a subscription's attempts in flight, without waiting for their end.
func (x *outbound) cut(subscription string) {
	x.under.Cut(func(sub *sluice.Subscription) bool { return sub.ID == subscription })
}

// end cancels a subscription, only once if several of its runners call it, and returns when the
// cancellation is stored. Until then nothing is sent to the subscription.
func (x *outbound) end(ctx context.Context, id string, cancel func(context.Context) error) error {
	for {
		e, mine := x.beginEnd(id)
		if mine {
			err := cancel(ctx)
			x.finishEnd(id, e, err)
			return err
		}
		select {
		case <-e.over:
			if e.err == nil {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (x *outbound) beginEnd(id string) (e *ending, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e = x.ending[id]; e != nil {
		return e, false
	}
	e = &ending{over: make(chan struct{})}
	x.ending[id] = e
	return e, true
}

func (x *outbound) finishEnd(id string, e *ending, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.ending, id)
	e.err = err
	close(e.over)
}

// Withdraw cancels the attempts in flight, of live deliveries and of replays, to every subscription
// for which lost returns true. It returns when no more of them can leave. The caller must have
// updated the gate before, because the gate decides about attempts that begin meanwhile. If ctx
// ends first, Withdraw returns its error, and attempts may still leave.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.outbound.under.Cut(lost).Wait(ctx)
}

// revoke cancels a runner's subscription, which lost its access (S0-64). It retries until that
// succeeds. If ctx ends first, the next process that serves the subscription cancels it.
func (e *Engine) revoke(ctx context.Context, r *runner) error {
	of := cmp.Or(r.egress.lost.Load(), r.sub) // the settings with which access was lost: they may have changed since
	e.opts.Log.WarnContext(ctx, "access lost", slog.String("subscription", r.id), slog.String("owner", of.CreatedBy))
	return e.outbound.end(ctx, r.id, func(ctx context.Context) error {
		ctx, cancel := outlasting(ctx, recordLimit) // ctx ends when this process learns of the cancellation
		defer cancel()
		return backoff.RetryNotify(func() error {
			revoked, err := r.ports.Registry.Revoke(ctx, of)
			if err == nil && !revoked {
				return backoff.Permanent(errOwner)
			}
			return err
		},
			backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
				backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)), ctx),
			func(err error, again time.Duration) {
				e.opts.Log.WarnContext(ctx, "subscription without access not cancelled yet",
					slog.String("subscription", r.id), slog.Any("error", err), slog.Duration("in", again))
			})
	})
}

// outlasting returns a context that ends the given time after ctx.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(shutdown.Lasting(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-lasting.Done():
		}
	})
	return lasting, func() { stop(); cancel() }
}
