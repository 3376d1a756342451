package delivery

import (
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

// errLost tells the engine that the subscription may have nothing any more.
var errLost = errors.New("access lost")

// exit is the one way out for content: nothing else has the sender. It asks the gate about
// every attempt when nothing is left to do but to send, and knows what is under way.
//
// An attempt is known here before the gate is asked about it. So of two things that happen at
// once, a revocation and an attempt, either the gate knows of the one or Withdraw of the other.
type exit struct {
	gate   Gate // nil: everything may leave
	sender Sender

	under inflight.Set[*sluice.Subscription]

	mu     sync.Mutex
	ending map[string]*ending // subscriptions that are being cancelled
}

// ending is the cancellation of a subscription that lost its access.
type ending struct {
	over chan struct{}
	err  error // once it is over
}

func newExit(gate Gate, sender Sender) *exit {
	return &exit{gate: gate, sender: sender, ending: map[string]*ending{}}
}

// decide asks the gate.
func (x *exit) decide(sub *sluice.Subscription, ev *sluice.Event) model.Decision {
	if x.gate == nil {
		return model.Pass
	}
	return x.gate.Decide(sub, ev, time.Now())
}

// send makes an attempt if the gate lets it pass. Otherwise there is none, whatever was under way
// of it; one that was cut off is Lost or Undecided.
func (x *exit) send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) (sluice.Attempt, model.Decision) {
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
	case inflight.WasCut(ctx):
		return sluice.Attempt{}, x.again(sub, ev)
	}
	a := x.sender.Send(ctx, sub, ev, number)
	if inflight.WasCut(ctx) && a.Outcome != sluice.Delivered {
		return sluice.Attempt{}, x.again(sub, ev)
	}
	return a, model.Pass
}

// again is for an attempt that was cut off: if access is not lost after all, it is to be made
// anew.
func (x *exit) again(sub *sluice.Subscription, ev *sluice.Event) model.Decision {
	if x.decide(sub, ev) == model.Lost {
		x.cut(sub.ID)
		return model.Lost
	}
	return model.Undecided
}

// ends reports whether a subscription is being cancelled.
func (x *exit) ends(subscription string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ending[subscription] != nil
}

// cut cuts off what is under way to a subscription, and does not wait for it.
func (x *exit) cut(subscription string) {
	x.under.Cut(func(sub *sluice.Subscription) bool { return sub.ID == subscription })
}

// end cancels a subscription, once if several of its runners want it, and returns when that is
// stored. Until then nothing is sent to it. It returns an error only if it was given up.
func (x *exit) end(ctx context.Context, id string, cancel func(context.Context) error) error {
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

func (x *exit) beginEnd(id string) (e *ending, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e = x.ending[id]; e != nil {
		return e, false
	}
	e = &ending{over: make(chan struct{})}
	x.ending[id] = e
	return e, true
}

func (x *exit) finishEnd(id string, e *ending, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.ending, id)
	e.err = err
	close(e.over)
}

// Withdraw cuts off the attempts under way to every subscription for which lost says true, of
// live deliveries and of replays, and returns when nothing of them can leave any more. Whoever
// calls it has told the gate before: what begins meanwhile is decided by that. It returns ctx's
// error, and cannot tell, if that is done before.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.exit.under.Cut(lost).Wait(ctx)
}

// revoke cancels a runner's subscription, which lost its access (S0-64), however long that takes. If
// ctx is done before, whoever serves it next is told the same.
func (e *Engine) revoke(ctx context.Context, r *runner) error {
	e.opts.Log.WarnContext(ctx, "access lost: subscription cancelled", slog.String("subscription", r.id))
	return e.exit.end(ctx, r.id, func(ctx context.Context) error {
		ctx, cancel := outlasting(ctx, recordLimit) // the news that it is cancelled ends ctx
		defer cancel()
		return backoff.RetryNotify(func() error { return r.ports.Registry.Cancel(ctx, r.id, sluice.ReasonAccessRevoked) },
			backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
				backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)), ctx),
			func(err error, again time.Duration) {
				e.opts.Log.WarnContext(ctx, "subscription without access not cancelled yet",
					slog.String("subscription", r.id), slog.Any("error", err), slog.Duration("in", again))
			})
	})
}

// outlasting returns a context that is done so long after ctx is.
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
