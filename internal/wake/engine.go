package wake

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/fairsem"
	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Options are an engine's optional settings.
type Options struct {
	PublicURL   string             // base URL of callbacks: "https://sluice.example"
	Log         *slog.Logger       // default: slog.DiscardHandler
	MaxInFlight int                // concurrent notices of all subscriptions; default: 4,096
	ClaimWithin time.Duration      // default: ClaimWithin; shorter in tests
	Now         func() time.Time   // default: time.Now
	Fault       func(point string) // for tests: called before and after writes and requests; nil: none
}

// maxInFlight is the default of Options.MaxInFlight.
const maxInFlight = 4096

// Engine serves wake subscriptions. It handles the callbacks of all of them, and wakes the
// consumers of those that this process owns. It is safe for concurrent use.
type Engine struct {
	ports  Deps
	opts   Options
	turns  keylock.Turns[string] // one change of a consumer at a time, by id
	places *fairsem.Shares       // permits for notices in flight

	changes chan func()
	told    chan struct{} // closed when all stored subscriptions have been reported
	tellAll sync.Once

	runners supervise.Set[*runner] // by subscription

	mu       sync.Mutex
	over     chan struct{} // closed when Run ends; nil: it does not run
	subs     map[string]*sluice.Subscription
	revoking map[string]struct{}                // subscriptions that are being cancelled
	flights  inflight.Set[*sluice.Subscription] // notices in flight
}

// New returns an engine. It handles callbacks at once, but wakes consumers only while Run runs.
func New(ports Deps, opts Options) *Engine {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Fault == nil {
		opts.Fault = func(string) {}
	}
	if ports.Observe == nil {
		ports.Observe = nobody{}
	}
	opts.ClaimWithin = cmp.Or(opts.ClaimWithin, ClaimWithin)
	return &Engine{
		ports: ports, opts: opts, places: fairsem.New(cmp.Or(opts.MaxInFlight, maxInFlight)),
		changes: make(chan func()), told: make(chan struct{}), subs: map[string]*sluice.Subscription{}, revoking: map[string]struct{}{},
	}
}

// Run wakes consumers until ctx is done.
func (e *Engine) Run(ctx context.Context) error {
	over := e.begin()
	return supervise.Run(ctx, e.ports.Owns, supervise.Engine{
		Watches: []func(context.Context) error{func(ctx context.Context) error {
			return e.ports.Watch.Watch(ctx, func(id string, sub *sluice.Subscription) {
				learned := make(chan struct{})
				e.tell(ctx, func() { e.learn(ctx, id, sub); close(learned) })
				select {
				case <-learned: // the watch continues only after the engine has acted on the change
				case <-ctx.Done():
				}
			})
		}},
		Changed: func(ctx context.Context) <-chan struct{} {
			settled := make(chan struct{})
			e.tell(ctx, func() { e.settle(ctx, settled) })
			return settled
		},
		Serve: func(ctx context.Context) { e.follow(ctx, over) },
	})
}

// follow executes changes until ctx ends, and returns when no notice is in flight.
func (e *Engine) follow(ctx context.Context, over chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case change := <-e.changes:
			change()
		}
	}
	e.end(over)
	e.runners.Wait()
}

// begin permits the engine to start goroutines, until end: Run would not wait for later ones.
func (e *Engine) begin() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = make(chan struct{})
	return e.over
}

func (e *Engine) end(over chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = nil
	close(over)
}

func (e *Engine) tell(ctx context.Context, change func()) {
	select {
	case e.changes <- change:
	case <-ctx.Done():
	}
}

// learn enters a new, changed or deleted subscription. An empty id means that all stored ones were
// reported.
func (e *Engine) learn(ctx context.Context, id string, sub *sluice.Subscription) {
	if id == "" {
		e.tellAll.Do(func() { close(e.told) })
		return
	}
	if sub != nil && sub.Mode != sluice.Wake {
		sub = nil // this also ends an earlier wake subscription of the same id, whose end may not have been reported
	}
	e.mu.Lock()
	if sub == nil {
		delete(e.subs, id)
	} else {
		e.subs[id] = sub
	}
	e.mu.Unlock()
	e.apply(ctx, id, sub)
}

// settle checks all subscriptions again, and closes settled when all runners that were told to end
// have ended.
func (e *Engine) settle(ctx context.Context, settled chan struct{}) {
	for id, sub := range e.known() {
		e.apply(ctx, id, sub)
	}
	ended := e.runners.Settled()
	e.runners.Go(func() {
		<-ended
		close(settled)
	})
}

func (e *Engine) known() map[string]*sluice.Subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.subs)
}

// apply starts, keeps or ends the runner of a subscription.
func (e *Engine) apply(ctx context.Context, id string, sub *sluice.Subscription) {
	wanted := sub != nil && sub.State == sluice.Active && e.ports.Owns.Owns(id)
	r, runs := e.runners.Get(id)
	switch {
	case !wanted:
		e.runners.Stop(id)
	case runs && r.of == incarnation(sub):
		r.sub.Store(sub)
	default:
		e.runners.Start(ctx, id, func(ctx context.Context) (*runner, func()) {
			r := newRunner(ctx, e, sub)
			return r, r.run
		})
	}
}

// runner returns the runner of a subscription, nil if this process does not serve it.
func (e *Engine) runner(id string) *runner {
	r, _ := e.runners.Get(id)
	return r
}

// subscription returns a subscription of mode wake; nil if there is none.
func (e *Engine) subscription(ctx context.Context, id string) (*sluice.Subscription, error) {
	e.mu.Lock()
	sub := e.subs[id]
	e.mu.Unlock()
	if sub != nil {
		return sub, nil
	}
	sub, err := e.ports.Registry.Get(ctx, id)
	if code := sluice.CodeOf(err); code == sluice.SubscriptionMissing || code == sluice.NotFound || err == nil && sub.Mode != sluice.Wake {
		return nil, nil //nolint:nilnil // there is none
	}
	return sub, err
}

// incarnation distinguishes a subscription from an earlier one of the same id.
func incarnation(sub *sluice.Subscription) string {
	return strconv.FormatInt(sub.CreatedAt.UnixNano(), 36)
}

// rules returns Step's parameters for a subscription.
func rules(sub *sluice.Subscription) Rules {
	return Rules{Retry: sub.Policy.Retry, NewWakeID: newWakeID, Random: mathrand.Float64}
}

// newWakeID returns an id with 130 random bits, which cannot be guessed (S1-38).
func newWakeID() string { return "w_" + rand.Text() }

// nobody is an Observer that does nothing.
type nobody struct{}

func (nobody) Woken(*sluice.Subscription)                     {}
func (nobody) Notified(*sluice.Subscription, *sluice.Attempt) {}
func (nobody) CalledBack(*sluice.Subscription, sluice.Code)   {}
