package announce

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	changeLimit  = 2 * time.Second // what an announcement may add to a caller's request
	publishLimit = 5 * time.Second // of one announcement of the engine
	flushLimit   = 2 * time.Second // for what is still queued when the server ends
	expiredEvery = time.Hour       // that events of a subscription that nobody serves left the log unseen
	queueSize    = 1024
)

// Publisher stores events.
type Publisher interface {
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Options is what an announcer can do without.
type Options struct {
	Log     *slog.Logger      // slog.DiscardHandler
	Dropped func(kind string) // told of every announcement that is lost
	Queue   int               // announcements of the engine that wait; 1024
	Every   time.Duration     // at most one subscription.throttled in this time for each subscription; a second
}

// Announcer publishes system events. Its methods may be called at once.
type Announcer struct {
	publisher Publisher
	opts      Options
	queue     chan announcement // full: what comes is dropped and counted
	throttled throttled

	mu      sync.Mutex
	dropped int                  // since it was last logged
	unsafe  map[string]time.Time // when it was last told that a producer is, by its name
	expired map[string]time.Time // when events that nobody served expired, as last told, by subscription
}

// announcement is a system event that is to be published.
type announcement struct {
	namespace string
	path      sluice.Path
	id        string // "": a new one
	kind      string
	data      any
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
	return &Announcer{
		publisher: publisher, opts: opts, queue: make(chan announcement, opts.Queue), expired: map[string]time.Time{}, unsafe: map[string]time.Time{},
		throttled: throttled{counts: map[string]*count{}, fresh: make(chan struct{}, 1)},
	}
}

// subscriptionData is the data of the events about a subscription.
type subscriptionData struct {
	ID       string       `json:"id"`
	State    sluice.State `json:"state"`
	Reason   string       `json:"reason,omitempty"`
	Revision uint64       `json:"revision"`
}

// Subscription publishes what became of a subscription, which is stored as it is given. It
// takes two seconds at most; a failure is logged.
func (a *Announcer) Subscription(ctx context.Context, kind string, sub *sluice.Subscription) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	a.publish(ctx, announcement{
		namespace: sub.Namespace, path: sluice.SubscriptionPath(sub.ID), kind: kind,
		data: subscriptionData{ID: sub.ID, State: sub.State, Reason: sub.Reason, Revision: sub.Revision},
	})
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

// Dead tells of a dead letter, which is stored. It returns at once. A subscription to system
// events has none told of: they might be its own, for ever.
func (a *Announcer) Dead(sub *sluice.Subscription, d *sluice.DeadLetter) {
	if aboutSystem(sub.Pattern) || sub.State != sluice.Active && d.EventID == "" && a.toldExpired(sub.ID, time.Now()) {
		return
	}
	a.enqueue(announcement{
		namespace: d.Namespace, path: sluice.DeliveriesPath(d.Subscription), kind: sluice.TypeDeliveryDead,
		id:   strings.TrimSuffix(fmt.Sprintf("dead-%s-%d-%s-%s", d.Subscription, d.Seq, d.Reason, d.Replay), "-"), // a repeated letter is told of once
		data: dataOf(d),
	})
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
	a.enqueue(announcement{
		namespace: d.Namespace, path: sluice.DeliveriesPath(d.Subscription), kind: sluice.TypeDeliveryHeld,
		id: fmt.Sprintf("held-%s-%d-%d", d.Subscription, d.Seq, d.At.UnixNano()), data: dataOf(d),
	})
}

// toldExpired reports whether it was told within the hour that events of the subscription,
// which nobody serves, left the log unseen. In a log that is kept for a moment only they may
// have been nothing but what was told before: without a bound that would go on for ever.
func (a *Announcer) toldExpired(subscription string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.expired, func(_ string, told time.Time) bool { return now.Sub(told) >= expiredEvery })
	if _, told := a.expired[subscription]; told {
		return true
	}
	a.expired[subscription] = now
	return false
}

// aboutSystem reports whether a pattern matches the server's own paths, and so nothing else.
func aboutSystem(p sluice.Pattern) bool { return strings.HasPrefix(string(p), "/_sys") }

func (a *Announcer) enqueue(n announcement) {
	select {
	case a.queue <- n:
	default:
		a.opts.Dropped(n.kind)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.dropped++
	}
}

// logDropped says how many announcements did not fit; one line for each would be a flood.
func (a *Announcer) logDropped(ctx context.Context) {
	a.mu.Lock()
	n := a.dropped
	a.dropped = 0
	a.mu.Unlock()
	if n > 0 {
		a.opts.Log.WarnContext(ctx, "announcements dropped: too many wait", slog.Int("count", n), slog.Int("queue", a.opts.Queue))
	}
}

// Run publishes what the engine tells until ctx is done, then for a short time what still waits.
func (a *Announcer) Run(ctx context.Context) error {
	tick := time.NewTicker(a.opts.Every)
	defer tick.Stop()
	work := context.WithoutCancel(ctx) // one that is under way is finished
	for {
		select {
		case <-ctx.Done():
			a.flush(work)
			a.logDropped(work)
			return nil
		case n := <-a.queue:
			a.publishQueued(work, n)
		case <-a.throttled.fresh:
			a.tellThrottled(work)
		case <-tick.C:
			a.tellThrottled(work)
			a.logDropped(work)
		}
	}
}

func (a *Announcer) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	for {
		select {
		case n := <-a.queue:
			a.publish(ctx, n)
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

func (a *Announcer) publish(ctx context.Context, n announcement) {
	ev, err := n.event()
	if err == nil {
		_, err = a.publisher.Publish(ctx, n.namespace, []sluice.Event{ev})
	}
	if err != nil {
		a.opts.Dropped(n.kind)
		a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "announcement not published",
			slog.String("type", n.kind), slog.String("namespace", n.namespace), slog.String("path", string(n.path)), slog.Any("error", err))
	}
}

func (n announcement) event() (sluice.Event, error) {
	data, err := json.Marshal(n.data)
	if err != nil {
		return sluice.Event{}, fmt.Errorf("announce: %w", err)
	}
	if n.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return sluice.Event{}, fmt.Errorf("make an id: %w", err)
		}
		n.id = id.String()
	}
	return sluice.Event{
		Namespace: n.namespace, Path: n.path, ID: n.id, Type: n.kind, Source: sluice.SystemSource,
		Time: time.Now().UTC(), ContentType: "application/json", Data: data,
	}, nil
}
