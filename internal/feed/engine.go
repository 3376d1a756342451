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

// Gate says what may leave, and when that changes.
type Gate interface {
	// Shows says whether a caller may see an event.
	Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) model.Decision
	// May says whether a caller may have anything of what it asks for.
	May(c sluice.Caller, v sluice.Verb, wants sluice.Object, now time.Time) model.Decision
	// Applied returns what is closed when the answers may be others.
	Applied() (revision uint64, changed <-chan struct{})
}

// Options is what an engine works with.
type Options struct {
	Ring      int                        // events of each namespace that are kept for readers; DefaultRing
	MaxBuffer int                        // frames that a reader may be behind; DefaultMaxBuffer
	Heartbeat time.Duration              // after which a feed that sends nothing says so; DefaultHeartbeat
	Linger    time.Duration              // for which a ring is kept that nobody reads; 30 s
	RingBytes int                        // of each ring, whatever the number of events; 64 MiB
	AllBytes  int                        // of all rings; DefaultAllBytes
	Most      int                        // feeds at once; DefaultMost
	PerCaller int                        // feeds of one principal at once that a grant bounds; DefaultPerCaller
	Summary   func(*sluice.Event) []byte // what of an event's data is a summary; nil: nothing
	Labels    filter.Labels              // of event types; nil: they have none
	PublicURL string                     // where events can be read; empty: it is not said
	Log       *slog.Logger               // slog.DiscardHandler
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

// Engine serves feeds. Its methods may be called at once.
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

// New returns an engine that serves nobody before Run.
func New(log Log, gate Gate, opts Options) *Engine {
	opts.Ring = cmp.Or(opts.Ring, DefaultRing)
	opts.MaxBuffer = cmp.Or(opts.MaxBuffer, DefaultMaxBuffer)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, DefaultHeartbeat)
	opts.Linger = cmp.Or(opts.Linger, defaultLinger)
	opts.RingBytes = cmp.Or(opts.RingBytes, defaultRingBytes)
	opts.AllBytes = cmp.Or(opts.AllBytes, DefaultAllBytes)
	opts.Most = cmp.Or(opts.Most, DefaultMost)
	opts.PerCaller = cmp.Or(opts.PerCaller, DefaultPerCaller)
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

// Run serves feeds until ctx ends, and returns when all have ended.
func (e *Engine) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	e.hubs.Begin(inner)
	e.guard(ctx)
	e.hubs.End()
	return context.Cause(ctx)
}

// guard ends the feeds whose callers may have nothing any more, until ctx ends: when that may be otherwise than it was, and
// now and then, for rights that end by themselves. It also ends those whose readers take nothing at the moment.
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

// errStopping is why feeds end with the server.
func errStopping() error {
	return sluice.Errorf(sluice.Unavailable, "the server is shutting down; reconnect after the last sequence")
}

// began is why feeds end of a log that lost its end.
func began() error {
	return sluice.Errorf(sluice.Unavailable, "the log was recreated; reconnect")
}
