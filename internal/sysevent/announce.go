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
	changeLimit  = 2 * time.Second  // time that an announcement may add to a caller's request
	publishLimit = 5 * time.Second  // of one announcement of the engine
	lettersLimit = 20 * time.Second // for one batch of dead letters; another process gets them after 30 s
	flushLimit   = 2 * time.Second  // for the queue when the server stops
	sweepEvery   = time.Minute      // maximum delay of a change that a crash left unannounced
	expiredEvery = time.Hour        // minimum interval of reports that events of a subscription without an owner expired
	queueSize    = 1024
)

// Publisher stores events, each id once. Implementations are safe for concurrent use. Code Conflict
// if an id was used for another event.
type Publisher interface {
	// Publish stores all of the events, in order, or none. Code NotFound if there is no such namespace.
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Marks returns the marks of unsafe producers.
type Marks func(ctx context.Context) ([]sluice.Unsafe, error)

// Options are an announcer's optional dependencies and settings. Dropped must be safe for
// concurrent use and quick.
type Options struct {
	Log        *slog.Logger      // default: slog.DiscardHandler
	Dropped    func(kind string) // called for every lost announcement
	Outbox     Outbox            // nil: failed announcements of changes are not retried
	Namespaces Namespaces        // with Outbox; nil: the same
	Marks      Marks             // with Outbox; nil: a crash may lose announcements of unsafe producers
	Letters    Letters           // nil: dead letters are not announced
	Known      Known             // nil: possible repetitions are published
	Sweep      time.Duration     // interval of searches for unannounced changes; default: a minute
	Queue      int               // waiting announcements of the engine; default: 1024
	Every      time.Duration     // minimum interval of subscription.throttled for each subscription; default: a second
}

// Announcer publishes system events. It is safe for concurrent use. Methods without a context
// return at once. They can be called before and after Run; their announcements then wait in the
// queue. Those with a context, except Run, publish before they return, or log that they failed.
type Announcer struct {
	publisher Publisher
	opts      Options
	queue     chan announcement // if it is full, announcements are dropped and counted
	throttled throttled
	wake      chan struct{} // signals that a change's announcement failed

	mu      sync.Mutex
	later   map[string]struct{}  // subscriptions with failed announcements
	kept    []announcement       // stored states with an announcement that failed, or may have
	dropped int                  // since it was last logged
	unsafe  map[string]time.Time // when events of unsafe producers were announced or checked, by id
	expired map[string]time.Time // time of the last report of expired events, by subscription
}

// announcement is a system event to be published.
type announcement struct {
	namespace string
	path      sluice.Path
	id        string // "": a new one
	kind      string
	at        time.Time // zero: now
	data      any
	stored    bool // its state is stored, so it is retried until it succeeds
}

// New returns an announcer. Its Run publishes the engine's announcements. It starts nothing.
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

// Held announces a held lane, with the dead letter that its head would have without on_dead: hold.
// It returns at once. A system subscription's own deliveries are not announced, because that could
// go on endlessly.
func (a *Announcer) Held(sub *sluice.Subscription, d *sluice.DeadLetter) {
	if aboutSystem(sub.Pattern) {
		return
	}
	a.enqueue(held(d))
}

// StillHeld announces a lane that was stored as held, unless that is already published: the process
// that stored it may have crashed before.
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

// aboutSystem reports whether a pattern matches only the server's own paths.
func aboutSystem(p sluice.Pattern) bool { return strings.HasPrefix(string(p), "/_sys") }

// enqueue puts an announcement into the queue. It never blocks: if the queue is full, it keeps the
// announcement if it is stored, and drops it otherwise.
func (a *Announcer) enqueue(n announcement) {
	select {
	case a.queue <- n:
	default:
		if !n.stored || !a.keep(n) {
			a.drop(n)
		}
	}
}

// drop drops an announcement for lack of room.
func (a *Announcer) drop(n announcement) {
	a.opts.Dropped(n.kind)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped++
}

// logDropped logs the number of dropped announcements, in one line.
func (a *Announcer) logDropped(ctx context.Context) {
	a.mu.Lock()
	n := a.dropped
	a.dropped = 0
	a.mu.Unlock()
	if n > 0 {
		a.opts.Log.WarnContext(ctx, "system events dropped: the queue is full", slog.Int("count", n), slog.Int("queue", a.opts.Queue))
	}
}

// Run publishes the engine's announcements, the dead letters, and failed announcements of changes,
// until ctx is done. Then it publishes the rest of the queue, within a time limit. It returns nil,
// a little after ctx is done: at most flushLimit for the queue, and as long as the announcements in
// progress take. Call it at most once.
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

// runQueue is the only reader of the queue, so queued announcements are published one by one, in
// order.
func (a *Announcer) runQueue(ctx context.Context) {
	tick := time.NewTicker(a.opts.Every)
	defer tick.Stop()
	work := shutdown.Lasting(ctx) // one in progress is finished
	for {
		select {
		case <-ctx.Done():
			a.flush(work) // kept ones are found in the store by the next process
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

// publish publishes an announcement. If that fails, the announcement is retried if its state is
// stored, and lost otherwise. It logs the error unless it keeps the announcement.
func (a *Announcer) publish(ctx context.Context, n announcement) {
	ev, err := n.event()
	if err == nil {
		err = a.publishRenamed(ctx, n.namespace, []sluice.Event{ev})
	}
	if err == nil || n.stored && passing(err) && a.keep(n) {
		return
	}
	a.lose(ctx, n, err)
}

// lose counts and logs a lost announcement. During a shutdown, only the number of all of them is
// logged (see shutdown.Left).
func (a *Announcer) lose(ctx context.Context, n announcement, err error) {
	a.opts.Dropped(n.kind)
	if shutdown.Left(ctx, "announcements", 1) {
		return
	}
	a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system event not published",
		slog.String("type", n.kind), slog.String("namespace", n.namespace), slog.String("path", string(n.path)), slog.Any("error", err))
}

// event encodes the data, so n.data must not change while n is queued.
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
