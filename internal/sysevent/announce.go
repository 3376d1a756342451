package sysevent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	changeLimit  = 2 * time.Second  // what an announcement may add to a caller's request
	publishLimit = 5 * time.Second  // of one announcement of the engine
	lettersLimit = 20 * time.Second // of what is told of dead letters at once; others are handed them after 30
	flushLimit   = 2 * time.Second  // for what is still queued when the server ends
	sweepEvery   = time.Minute      // how long a change that a crash kept from being told waits
	expiredEvery = time.Hour        // that events of a subscription that nobody serves left the log unseen
	queueSize    = 1024
)

// Publisher stores events, each id once.
type Publisher interface {
	// Publish stores all of the events, in order, or none. Code NotFound if there is no such namespace.
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Marks returns the marks of unsafe producers.
type Marks func(ctx context.Context) ([]sluice.Unsafe, error)

// Options is what an announcer can do without.
type Options struct {
	Log        *slog.Logger      // slog.DiscardHandler
	Dropped    func(kind string) // told of every announcement that is lost
	Outbox     Outbox            // nil: of what cannot be told at once nobody hears
	Namespaces Namespaces        // with Outbox; nil: the same
	Marks      Marks             // with Outbox; nil: what a crash kept from being told of unsafe producers is not
	Letters    Letters           // nil: nobody tells of dead letters
	Known      Known             // nil: what may have been told before is told again
	Sweep      time.Duration     // how often it is looked for changes that nobody told of; a minute
	Queue      int               // announcements of the engine that wait; 1024
	Every      time.Duration     // at most one subscription.throttled in this time for each subscription; a second
}

// Announcer publishes system events. Its methods may be called at once.
type Announcer struct {
	publisher Publisher
	opts      Options
	queue     chan announcement // full: what comes is dropped and counted
	throttled throttled
	wake      chan struct{} // a change could not be told

	mu      sync.Mutex
	later   map[string]struct{}  // subscriptions of which something could not be told
	kept    []announcement       // of what is stored: they could not be told, or may not have been
	dropped int                  // since it was last logged
	unsafe  map[string]time.Time // ids of what was told, or looked for, of unsafe producers, and when
	expired map[string]time.Time // when events that nobody served expired, as last told, by subscription
}

// announcement is a system event that is to be published.
type announcement struct {
	namespace string
	path      sluice.Path
	id        string // "": a new one
	kind      string
	at        time.Time // zero: now
	data      any
	stored    bool // and so is what it tells of: it is told until it is
}

// New returns an announcer. Its Run has to run for what the engine tells to be published.
func New(publisher Publisher, opts Options) *Announcer {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Dropped == nil {
		opts.Dropped = func(string) {}
	}
	opts.Queue = cmp.Or(opts.Queue, queueSize)
	opts.Every = cmp.Or(opts.Every, time.Second)
	opts.Sweep = cmp.Or(opts.Sweep, sweepEvery)
	return &Announcer{
		publisher: publisher, opts: opts, queue: make(chan announcement, opts.Queue), expired: map[string]time.Time{}, unsafe: map[string]time.Time{},
		wake: make(chan struct{}, 1), later: map[string]struct{}{},
		throttled: throttled{counts: map[string]*count{}, fresh: make(chan struct{}, 1)},
	}
}

// deadData is the data of delivery.dead and delivery.held.
type deadData struct {
	Subscription string        `json:"subscription"`
	EventID      string        `json:"event_id,omitempty"`
	Seq          uint64        `json:"seq"`
	LastSeq      uint64        `json:"last_seq,omitempty"`
	Path         sluice.Path   `json:"path,omitempty"`
	Reason       sluice.Reason `json:"reason"`
	Attempts     int           `json:"attempts"`
	LastError    string        `json:"last_error,omitempty"`
	At           time.Time     `json:"at"`
}

func dataOf(d *sluice.DeadLetter) deadData {
	return deadData{
		Subscription: d.Subscription, EventID: d.EventID, Seq: d.Seq, LastSeq: d.LastSeq, Path: d.Path,
		Reason: d.Reason, Attempts: d.Attempts, LastError: d.LastError, At: d.At,
	}
}

// Held tells of a lane that is held, with the letter that its head would have had. It returns at
// once.
func (a *Announcer) Held(sub *sluice.Subscription, d *sluice.DeadLetter) {
	if aboutSystem(sub.Pattern) {
		return
	}
	a.enqueue(held(d))
}

// StillHeld has it told of a lane that is held already, if it was not: whoever stored it may have died before.
func (a *Announcer) StillHeld(sub *sluice.Subscription, d *sluice.DeadLetter) {
	if !aboutSystem(sub.Pattern) {
		a.again(held(d))
	}
}

func held(d *sluice.DeadLetter) announcement {
	return announcement{
		namespace: d.Namespace, path: sluice.DeliveriesPath(d.Subscription), kind: sluice.TypeDeliveryHeld, at: d.At,
		id: fmt.Sprintf("held-%s-%d-%d", d.Subscription, d.Seq, d.At.UnixNano()), data: dataOf(d), stored: true,
	}
}

// aboutSystem reports whether a pattern matches the server's own paths, and so nothing else.
func aboutSystem(p sluice.Pattern) bool { return strings.HasPrefix(string(p), "/_sys") }

func (a *Announcer) enqueue(n announcement) {
	select {
	case a.queue <- n:
	default:
		if !n.stored || !a.keep(n) {
			a.drop(n)
		}
	}
}

// drop loses an announcement for want of room.
func (a *Announcer) drop(n announcement) {
	a.opts.Dropped(n.kind)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped++
}

// logDropped says how many announcements did not fit; one line for each would be a flood.
func (a *Announcer) logDropped(ctx context.Context) {
	a.mu.Lock()
	n := a.dropped
	a.dropped = 0
	a.mu.Unlock()
	if n > 0 {
		a.opts.Log.WarnContext(ctx, "system events dropped: the queue is full", slog.Int("count", n), slog.Int("queue", a.opts.Queue))
	}
}

// Run publishes what the engine tells, the dead letters, and what could not be told of changes, until ctx is done; then for a
// short time what still waits.
func (a *Announcer) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	if a.opts.Letters != nil {
		parts.Go(func() { a.runLetters(ctx) })
	}
	if a.opts.Outbox != nil {
		parts.Go(func() { a.runChanges(ctx) })
	}
	a.runQueue(ctx)
	parts.Wait()
	return nil
}

func (a *Announcer) runQueue(ctx context.Context) {
	tick := time.NewTicker(a.opts.Every)
	defer tick.Stop()
	work := shutdown.Lasting(ctx) // one that is under way is finished
	for {
		select {
		case <-ctx.Done():
			a.flush(work) // what is kept is found where it is stored, by whoever comes next
			a.logDropped(work)
			return
		case n := <-a.queue:
			a.publishQueued(work, n)
		case <-a.throttled.fresh:
			a.tellThrottled(work)
		case <-tick.C:
			a.tellThrottled(work)
			a.tellKept(work)
			a.logDropped(work)
		}
	}
}

func (a *Announcer) flush(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	for {
		select {
		case n := <-a.queue:
			a.publish(limit, n)
		default:
			return
		}
	}
}

func (a *Announcer) publishQueued(ctx context.Context, n announcement) {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	a.publish(ctx, n)
}

// publish publishes an announcement. One that fails is lost, unless what it tells of is stored: then it is told later.
func (a *Announcer) publish(ctx context.Context, n announcement) {
	ev, err := n.event()
	if err == nil {
		_, err = a.publisher.Publish(ctx, n.namespace, []sluice.Event{ev})
	}
	if err == nil || n.stored && passing(err) && a.keep(n) {
		return
	}
	a.lose(ctx, n, err)
}

func (a *Announcer) lose(ctx context.Context, n announcement, err error) {
	a.opts.Dropped(n.kind)
	if shutdown.Left(ctx, "announcements", 1) {
		return
	}
	a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system event not published",
		slog.String("type", n.kind), slog.String("namespace", n.namespace), slog.String("path", string(n.path)), slog.Any("error", err))
}

func (n announcement) event() (sluice.Event, error) {
	data, err := json.Marshal(n.data)
	if err != nil {
		return sluice.Event{}, fmt.Errorf("announce: %w", err)
	}
	if n.at.IsZero() {
		n.at = time.Now()
	}
	if n.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return sluice.Event{}, fmt.Errorf("generate an ID: %w", err)
		}
		n.id = id.String()
	}
	return sluice.Event{
		Namespace: n.namespace, Path: n.path, ID: n.id, Type: n.kind, Source: sluice.SystemSource,
		Time: n.at.UTC(), ContentType: "application/json", Data: data,
	}, nil
}
