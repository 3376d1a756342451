package feed

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Gate decides which events may leave, and signals changes.
type Gate interface {
	// Shows decides whether a caller may see an event.
	Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) model.Decision
	// May decides whether a caller may see any part of an object.
	May(c sluice.Caller, v sluice.Verb, wants sluice.Object, now time.Time) model.Decision
	// Applied returns a channel that is closed when the answers may have changed.
	Applied() (revision uint64, changed <-chan struct{})
}

// Options are an engine's settings.
type Options struct {
	Ring      int                                            // events that a namespace's ring keeps; default: DefaultRing
	MaxBuffer int                                            // frames that a reader may be behind; default: DefaultMaxBuffer
	Heartbeat time.Duration                                  // idle time before a heartbeat; default: DefaultHeartbeat
	Linger    time.Duration                                  // how long a ring without feeds is kept; default: 30 s
	RingBytes int                                            // maximum of each ring, for any number of events; default: 64 MiB
	AllBytes  int                                            // maximum of all rings together; default: DefaultAllBytes
	Most      int                                            // concurrent feeds; default: DefaultMost
	PerCaller int                                            // concurrent feeds of one principal with a grant; default: DefaultPerCaller
	Summary   func(*sluice.Event) []byte                     // returns the summary of an event's data, nil for none; nil: no event has one
	Filters   *filter.Pool                                   // evaluates expressions; nil: a pool without rates
	Payer     func(c sluice.Caller, namespace string) string // returns the principal that pays for a caller's expressions, "" for the operator; nil: the operator pays
	Labels    filter.Labels                                  // of event types; nil: they have none
	Lost      func(namespace string) []sluice.Gap            // returns the ranges of a log that are lost to damage; nil: there are none
	PublicURL string                                         // public URL of events; empty: unknown
	Log       *slog.Logger                                   // default: slog.DiscardHandler
}

// Defaults of Options.
const (
	DefaultRing      = 1024
	DefaultMaxBuffer = 16384
	DefaultHeartbeat = 15 * time.Second
	DefaultAllBytes  = 1 << 30
	DefaultMost      = 20_000
	DefaultPerCaller = 1000

	defaultLinger    = 30 * time.Second
	defaultRingBytes = 64 << 20
	again            = 200 * time.Millisecond
	againMost        = 5 * time.Second
)

// Engine serves feeds. It is safe for concurrent use.
type Engine struct {
	log  Log
	gate Gate
	opts Options
	draw renderer

	batches sync.Pool // of *[batch]*Item
	pieces  sync.Pool // of *[atOnce]Frame

	lagged  atomic.Uint64
	refused atomic.Uint64

	hubs *logtail.Set[*Item, *hub]

	mu      sync.Mutex
	feeds   int
	callers map[sluice.Principal]int // feeds of each
}

// New returns an engine that serves feeds while Run runs.
func New(log Log, gate Gate, opts Options) *Engine {
	opts.Ring = cmp.Or(opts.Ring, DefaultRing)
	opts.MaxBuffer = cmp.Or(opts.MaxBuffer, DefaultMaxBuffer)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, DefaultHeartbeat)
	opts.Linger = cmp.Or(opts.Linger, defaultLinger)
	opts.RingBytes = cmp.Or(opts.RingBytes, defaultRingBytes)
	opts.AllBytes = cmp.Or(opts.AllBytes, DefaultAllBytes)
	opts.Most = cmp.Or(opts.Most, DefaultMost)
	opts.PerCaller = cmp.Or(opts.PerCaller, DefaultPerCaller)
	if opts.Filters == nil {
		opts.Filters = filter.NewPool(filter.Rates{})
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		log: log, gate: gate, opts: opts, draw: renderer{opts.Summary, opts.PublicURL}, callers: map[sluice.Principal]int{},
		batches: sync.Pool{New: func() any { return new([batch]*Item) }},
		pieces:  sync.Pool{New: func() any { return new([atOnce]Frame) }},
	}
	e.hubs = newHubs(e)
	return e
}

// Run serves feeds until ctx ends. It returns the cause when all feeds have ended.
func (e *Engine) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	e.hubs.Begin(inner)
	e.guard(ctx)
	e.hubs.End()
	return context.Cause(ctx)
}

// guard ends the feeds of callers that lost all access, until ctx ends. It checks at each change of
// the gate and, because rights can expire, at each heartbeat. It also ends feeds whose readers are
// blocked.
func (e *Engine) guard(ctx context.Context) {
	beat := time.NewTicker(e.opts.Heartbeat)
	defer beat.Stop()
	for {
		_, changed := e.gate.Applied()
		now := time.Now()
		for _, f := range e.served() {
			if err := f.allowed(now); err != nil {
				f.end(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-beat.C:
			e.share()
		}
	}
}

// served returns the feeds that run now.
func (e *Engine) served() []*Feed {
	var all []*Feed
	for _, t := range e.hubs.Tails() {
		all = append(all, t.Beside.running()...)
	}
	return all
}

// ErrStopping ends feeds when the server stops. Code Unavailable.
var ErrStopping error = sluice.Errorf(sluice.Unavailable, "the server is shutting down; reconnect after the last sequence")

// began returns the error that ends feeds of a log that lost its end.
func began() error {
	return sluice.Errorf(sluice.Unavailable, "the log was recreated; reconnect")
}
