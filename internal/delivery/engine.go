package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/fairsem"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watcher reports every subscription, first its current state, then its changes, until ctx is done.
// A nil sub means that the subscription of that id is gone.
type Watcher interface {
	Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error
}

// Ownership decides which subscriptions this process serves.
type Ownership interface {
	supervise.Ownership
	Owns(subscription string) bool
}

// Options are an engine's optional dependencies and settings.
type Options struct {
	Observe Observer     // default: none
	Log     *slog.Logger // default: slog.DiscardHandler
	Replays ReplayWatcher

	LookEvery   time.Duration // interval between looks at waiting events; default: ten seconds
	MaxInFlight int           // concurrent attempts of all subscriptions; default: 1,024
}

// ReplayWatcher reports every replay, first its current state, then its changes and its end, until
// ctx is done.
type ReplayWatcher interface {
	Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error
}

// maxInFlight is the default of Options.MaxInFlight.
const maxInFlight = 1024

// Engine serves the push subscriptions that this process owns, one runner each.
type Engine struct {
	watch   Watcher
	owns    Ownership
	ports   Deps
	opts    Options
	changes chan change

	serving  supervise.Set[*served] // by subscription
	replays  replays
	shares   *fairsem.Shares // permits for attempts in flight
	outbound *outbound       // the only holder of the sender
	ahead    atomic.Int64    // bytes of the budget used by read-ahead
}

type change struct {
	id  string
	sub *sluice.Subscription // nil with an id: gone; nil without one: check all again

	settled chan struct{} // if not nil: closed when the runners that were told to end have ended

	replay *sluice.Replay // with an id: of a replay; nil: the change is of a subscription
	gone   bool           // the replay is

	saveLanes bool // the store has lost the records of all parked lanes
}

// served is a subscription that a runner serves.
type served struct {
	runner *runner
	over   atomic.Bool // the subscription has ended for good
}

// New returns an engine that is idle until Run.
func New(watch Watcher, owns Ownership, ports Deps, opts Options) *Engine {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Observe == nil {
		opts.Observe = noObserver{}
	}
	if ports.Healths == nil {
		ports.Healths = noHealths{}
	}
	if ports.Announce == nil {
		ports.Announce = noAnnouncer{}
	}
	if ports.Filters == nil {
		ports.Filters = filter.NewPool(filter.Rates{})
	}
	opts.LookEvery = cmp.Or(opts.LookEvery, holdEvery)
	way := newOutbound(ports.Gate, ports.Sender)
	ports.Gate, ports.Sender = nil, nil // outbound alone sends
	return &Engine{
		watch: watch, owns: owns, ports: ports, opts: opts, shares: fairsem.New(cmp.Or(opts.MaxInFlight, maxInFlight)), outbound: way,
		changes: make(chan change), replays: replays{all: map[string]sluice.Replay{}},
	}
}

// Run serves until ctx is done. Attempts in flight finish before it returns.
func (e *Engine) Run(ctx context.Context) error {
	watches := []func(context.Context) error{func(ctx context.Context) error {
		return e.watch.Watch(ctx, func(id string, sub *sluice.Subscription) { e.tell(ctx, change{id: id, sub: sub}) })
	}}
	if e.opts.Replays != nil {
		watches = append(watches, func(ctx context.Context) error {
			return e.opts.Replays.Watch(ctx, func(rep sluice.Replay, gone bool) {
				e.tell(ctx, change{id: rep.ID, replay: &rep, gone: gone})
			})
		})
	}
	return supervise.Run(ctx, e.owns, supervise.Engine{
		Watches: watches,
		Changed: func(ctx context.Context) <-chan struct{} {
			settled := make(chan struct{})
			e.tell(ctx, change{settled: settled})
			return settled
		},
		Serve: func(ctx context.Context) {
			e.follow(ctx)
			e.serving.Wait()
			e.replays.serving.Wait()
		},
	})
}

func (e *Engine) tell(ctx context.Context, c change) {
	select {
	case e.changes <- c:
	case <-ctx.Done():
	}
}

// follow keeps the runners in step with the subscriptions and with their ownership.
func (e *Engine) follow(ctx context.Context) {
	all := map[string]*sluice.Subscription{}
	tick := time.NewTicker(sweepLooks * e.opts.LookEvery)
	defer tick.Stop()
	swept := make(chan struct{}, 1)
	swept <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			select {
			case <-swept:
				subs := e.idle(all)
				e.serving.Go(func() {
					e.sweep(ctx, subs)
					swept <- struct{}{}
				})
			default: // it takes long
			}
		case c := <-e.changes:
			e.enter(ctx, c, all)
		}
	}
}

// enter applies a change to the set of known subscriptions.
func (e *Engine) enter(ctx context.Context, c change, all map[string]*sluice.Subscription) {
	switch {
	case c.saveLanes:
		e.saveLanes()
	case c.replay != nil:
		e.changeReplay(ctx, *c.replay, c.gone, all)
	case c.id == "":
		for _, sub := range all {
			e.apply(ctx, sub)
		}
		for _, rep := range e.replays.all {
			e.applyReplay(ctx, rep, all[rep.Subscription])
		}
		e.settle(c.settled)
	case c.sub == nil:
		delete(all, c.id)
		e.end(c.id)
		e.leaveReplaysOf(ctx, c.id)
	default:
		all[c.id] = c.sub
		e.apply(ctx, c.sub)
		for _, rep := range e.replays.of(c.id) {
			e.applyReplay(ctx, rep, c.sub)
		}
	}
}

// settle closes a channel when the runners that were told to end have ended.
func (e *Engine) settle(settled chan struct{}) {
	live, replays := e.serving.Settled(), e.replays.serving.Settled()
	e.serving.Go(func() {
		<-live
		<-replays
		close(settled)
	})
}

// idle returns the subscriptions that this process owns and does not serve.
func (e *Engine) idle(all map[string]*sluice.Subscription) (subs []*sluice.Subscription) {
	for _, sub := range all {
		if sub.Mode == sluice.Push && (sub.State == sluice.Paused || sub.State == sluice.Disabled || sub.State == sluice.Suspended) && e.owns.Owns(sub.ID) {
			subs = append(subs, sub)
		}
	}
	return subs
}

// apply starts, changes or stops the subscription's runner, as its state requires.
func (e *Engine) apply(ctx context.Context, sub *sluice.Subscription) {
	switch {
	case sub.State == sluice.Cancelled:
		e.end(sub.ID)
		return
	case sub.Mode != sluice.Push || sub.State != sluice.Active || !e.owns.Owns(sub.ID):
		e.serving.Stop(sub.ID)
		return
	}
	if s, ok := e.serving.Get(sub.ID); ok && s.runner.ordering == sub.Policy.Ordering && s.runner.began.Equal(sub.Began()) {
		s.runner.change(sub)
		return
	}
	e.start(ctx, sub)
}

// liveRunner returns the runner of a subscription, or nil.
func (e *Engine) liveRunner(id string) *runner {
	if s, ok := e.serving.Get(id); ok {
		return s.runner
	}
	return nil
}

func (e *Engine) newRunner(sub *sluice.Subscription, ports Deps) *runner {
	r := newRunner(sub, ports, e.opts, &e.ahead, e.shares.Join())
	r.outbound = e.outbound
	return r
}

// start starts a runner in place of the subscription's present one, which finishes its attempts in
// flight first. It ends with ctx, or when it is stopped.
func (e *Engine) start(ctx context.Context, sub *sluice.Subscription) {
	e.serving.Start(ctx, sub.ID, func(inner context.Context) (*served, func()) {
		s := &served{runner: e.newRunner(sub, e.ports)}
		return s, func() {
			e.keep(inner, s.runner)
			if s.over.Load() {
				s.runner.forget(shutdown.Lasting(ctx))
			}
		}
	})
}

// keep restarts a runner after a failure, with backoff.
func (e *Engine) keep(ctx context.Context, r *runner) {
	const shortest, longest = 250 * time.Millisecond, 5 * time.Second // NATS may return any moment
	pause := shortest
	for {
		began := time.Now()
		err := e.runOnce(ctx, r)
		if err == nil || errors.Is(err, errGone) {
			<-ctx.Done() // it is cancelled; opening it again would create its consumers again
		}
		if ctx.Err() != nil {
			return
		}
		r.unopened(ctx, err)
		level := slog.LevelWarn
		if errors.Is(err, errSourceEnded) {
			level = slog.LevelInfo
		}
		if level == slog.LevelInfo || time.Since(began) > time.Minute {
			pause = shortest
		}
		e.opts.Log.LogAttrs(ctx, level, "subscription restarting",
			slog.String("subscription", r.id), slog.Any("error", err), slog.Duration("in", pause))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter, not a secret
		}
		pause = min(2*pause, longest)
	}
}

// runOnce runs a runner and handles its end. Access lost while it was told to end is handled by the
// next process to serve the subscription.
func (e *Engine) runOnce(ctx context.Context, r *runner) error {
	err := r.run(ctx)
	switch {
	case errors.Is(err, errLost) && ctx.Err() == nil:
		return e.revoke(ctx, r)
	case errors.Is(err, errReplayed):
		return r.conclude(ctx)
	}
	return err
}

// end stops the runner of a subscription that has ended for good: its last writes are of no use.
func (e *Engine) end(id string) {
	if s, ok := e.serving.Get(id); ok {
		s.over.Store(true)
	}
	e.serving.Stop(id)
}

// Gauges returns a snapshot of every runner, by subscription.
func (e *Engine) Gauges() []model.DeliveryGauges {
	serving := e.serving.All()
	all := make([]model.DeliveryGauges, 0, len(serving))
	for _, s := range serving {
		all = append(all, s.runner.read())
	}
	slices.SortFunc(all, func(a, b model.DeliveryGauges) int { return strings.Compare(a.Subscription, b.Subscription) })
	return all
}

type noObserver struct{}

// noAnnouncer announces nothing.
type noAnnouncer struct{}

func (noAnnouncer) Held(*sluice.Subscription, *sluice.DeadLetter) {}
func (noAnnouncer) Throttled(*sluice.Subscription, string)        {}
func (noAnnouncer) Failing(*sluice.Subscription, int, time.Time)  {}

func (noAnnouncer) StillHeld(*sluice.Subscription, *sluice.DeadLetter) {}
func (noAnnouncer) StillFailing(*sluice.Subscription, int, time.Time)  {}

func (noObserver) Matched(*sluice.Subscription)                    {}
func (noObserver) Attempted(*sluice.Subscription, *sluice.Attempt) {}
func (noObserver) Buried(*sluice.Subscription, sluice.Reason)      {}
func (noObserver) Withheld(*sluice.Subscription)                   {}
func (noObserver) Turned(*sluice.Subscription, sluice.Breaker)     {}
func (noObserver) Throttled(*sluice.Subscription)                  {}
func (noObserver) Failing(*sluice.Subscription, int, time.Time)    {}
