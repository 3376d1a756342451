package sysevent

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const retryEvery = time.Second // pause between retries

// Outbox has the pending announcements of subscriptions' changes, stored in one step with the
// change. Implementations are safe for concurrent use. Told with an earlier revision of the
// subscription than the stored one must leave the later announcements pending.
type Outbox interface {
	// Waiting returns all subscriptions with pending announcements: their names, their revisions,
	// and the announcements (Untold), oldest first. A process may have published them and ended
	// before it called Told.
	Waiting(ctx context.Context) ([]*sluice.Subscription, error)
	// Untold returns one such subscription. Code NotFound if nothing is pending.
	Untold(ctx context.Context, id string) (*sluice.Subscription, error)
	// Told notes that all announcements of the subscription are published.
	Told(ctx context.Context, sub *sluice.Subscription) error
}

// Known returns those of the ids that belong to events stored on the path since a time, by the
// caller's clock. It is used where the dedup window may have passed, so that publishing them again
// would store them twice. Code NotFound for the namespace.
type Known func(ctx context.Context, namespace string, path sluice.Path, ids []string, since time.Time) ([]string, error)

// subscriptionData is the data of the events about a subscription.
type subscriptionData struct {
	ID          string          `json:"id"`
	State       sluice.State    `json:"state"`
	Reason      string          `json:"reason,omitempty"`
	CancelledBy string          `json:"cancelled_by,omitempty"`
	Revision    uint64          `json:"revision"`
	Old         json.RawMessage `json:"old,omitempty"`
	New         json.RawMessage `json:"new,omitempty"`
}

// Subscription publishes a subscription's pending announcements (Untold), which are stored. It
// takes at most two seconds. A failure is logged, and retried until the events are published, in
// order and once. Without an outbox, a failure is not retried. ctx carries values only: its end
// does not end the call.
func (a *Announcer) Subscription(ctx context.Context, sub *sluice.Subscription) {
	if len(sub.Untold) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), changeLimit)
	defer cancel()
	if err := a.tellChanges(ctx, sub, a.publishAll); err != nil {
		a.tellLater(ctx, sub, err)
	}
}

// publishing publishes events of one namespace, in order.
type publishing func(ctx context.Context, namespace string, events []sluice.Event) error

// tellChanges publishes all pending announcements of a subscription, in order: first those of a
// deleted one that had its id, in the namespace of that one. A concurrent process publishes the same
// events under the same ids. A crash between publishing and Told leaves them
// pending, and the next sweep finds them.
func (a *Announcer) tellChanges(ctx context.Context, sub *sluice.Subscription, publish publishing) error {
	events := make([]sluice.Event, len(sub.Untold))
	for i, n := range sub.Untold {
		var err error
		if events[i], err = change(sub, n).event(); err != nil {
			return err
		}
	}
	if err := publishEach(ctx, events, publish); err != nil || a.opts.Outbox == nil {
		return err
	}
	return a.opts.Outbox.Told(ctx, sub)
}

// publishEach publishes events in order, each in its namespace.
func publishEach(ctx context.Context, events []sluice.Event, publish publishing) error {
	for len(events) > 0 {
		ns, n := events[0].Namespace, 1
		for n < len(events) && events[n].Namespace == ns {
			n++
		}
		if err := publish(ctx, ns, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

func change(sub *sluice.Subscription, n sluice.Announcement) announcement {
	return announcement{
		namespace: cmp.Or(n.Namespace, sub.Namespace), path: sluice.SubscriptionPath(sub.ID), kind: n.Type, id: n.ID, at: n.At,
		data: subscriptionData{
			ID: sub.ID, State: n.State, Reason: n.Reason, CancelledBy: n.CancelledBy, Revision: n.Revision, Old: n.Old, New: n.New,
		},
	}
}

// tellLater logs why an announcement failed, and schedules a retry if it is stored.
func (a *Announcer) tellLater(ctx context.Context, sub *sluice.Subscription, err error) {
	a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "system event of a change not published", slog.String("subscription", sub.ID),
		slog.String("namespace", sub.Namespace), slog.Int("untold", len(sub.Untold)), slog.Any("error", err))
	if a.opts.Outbox == nil {
		a.opts.Dropped(sub.Untold[len(sub.Untold)-1].Type)
		return
	}
	a.mu.Lock()
	a.later[sub.ID] = struct{}{}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it is already awake
	}
}

// runChanges publishes pending announcements: first those that a crash left, then those of this
// process that failed, and at intervals those that other processes left. Several replicas run it at
// once.
func (a *Announcer) runChanges(ctx context.Context) {
	sweep := time.NewTicker(a.opts.Sweep)
	defer sweep.Stop()
	swept := a.sweep(ctx)
	late := a.sweepNamespaces(ctx, nil)
	a.sweepMarks(ctx)
	for {
		var again <-chan time.Time
		if told := a.retry(ctx); !told || !swept {
			again = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-again:
			swept = swept || a.sweep(ctx)
		case <-sweep.C:
			swept = a.sweep(ctx)
			late = a.sweepNamespaces(ctx, late)
			a.sweepMarks(ctx)
		}
	}
}

// sweep finds unannounced changes, and notes their subscriptions. It reports whether the search
// succeeded.
func (a *Announcer) sweep(ctx context.Context) bool {
	waiting, err := a.opts.Outbox.Waiting(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "unpublished changes cannot be listed", slog.Any("error", err))
		}
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sub := range waiting {
		a.later[sub.ID] = struct{}{}
	}
	return true
}

// retry publishes the noted announcements, and reports whether none is left. Those of one
// subscription are in order; the subscriptions are in no particular order.
func (a *Announcer) retry(ctx context.Context) bool {
	a.mu.Lock()
	ids := make([]string, 0, len(a.later))
	for id := range a.later {
		ids = append(ids, id)
	}
	a.mu.Unlock()
	left := 0
	for _, id := range ids {
		if err := a.retryOne(ctx, id); err != nil {
			left++
			a.opts.Log.LogAttrs(ctx, slog.LevelDebug, "system event of a change not published yet", slog.String("subscription", id), slog.Any("error", err))
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return left == 0
}

func (a *Announcer) retryOne(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	a.mu.Lock()
	delete(a.later, id) // before it is read: later failures are noted again
	a.mu.Unlock()
	sub, err := a.opts.Outbox.Untold(ctx, id)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil
	}
	if err == nil {
		err = a.tellChanges(ctx, sub, a.publishUnknown)
	}
	if err != nil {
		a.mu.Lock()
		a.later[id] = struct{}{}
		a.mu.Unlock()
	}
	return err
}

// unknown returns those of the events that are not published yet. It calls Known once for each
// path. It returns all events if there is no Known, and none if the namespace is gone.
func (a *Announcer) unknown(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Event, error) {
	if a.opts.Known == nil {
		return events, nil
	}
	type place struct {
		ids   []string
		since time.Time
	}
	places := map[sluice.Path]place{}
	for _, ev := range events {
		p, ok := places[ev.Path]
		if !ok || ev.Time.Before(p.since) {
			p.since = ev.Time
		}
		p.ids = append(p.ids, ev.ID)
		places[ev.Path] = p
	}
	told := map[string]bool{}
	for path, p := range places {
		ids, err := a.opts.Known(ctx, namespace, path, p.ids, p.since)
		if sluice.CodeOf(err) == sluice.NotFound {
			return nil, nil // the namespace is gone
		}
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			told[id] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(events), func(ev sluice.Event) bool { return told[ev.ID] }), nil
}
