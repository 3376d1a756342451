package records

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// FeedLog gives feeds access to the log.
type FeedLog struct{ Log *eventlog.Log }

// Ends returns the first and the last stored sequence.
func (l FeedLog) Ends(ctx context.Context, namespace string) (first, last uint64, err error) {
	return l.Log.Bounds(ctx, namespace)
}

// Incarnation returns the ID of the log.
func (l FeedLog) Incarnation(ctx context.Context, namespace string) (string, error) {
	return l.Log.Incarnation(ctx, namespace)
}

// Page returns events after a position, and the position up to which the page is complete.
func (l FeedLog) Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
	return l.Log.FeedPage(ctx, namespace, pattern, after, upTo)
}

// Tail calls each for the events after a position, and then for new ones.
func (l FeedLog) Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error {
	return l.Log.FeedTail(ctx, namespace, after, each)
}

// Place returns the sequence before the first event after a cursor.
func (l FeedLog) Place(ctx context.Context, namespace, cursor string) (uint64, error) {
	return l.Log.Resolve(ctx, namespace, cursor)
}

// WatchLog gives watches access to the log.
type WatchLog struct{ FeedLog }

var _ watch.Log = WatchLog{}

// NewWatchLog returns the log for watches.
func NewWatchLog(log *eventlog.Log) WatchLog { return WatchLog{FeedLog{log}} }

// EventAt returns the event with a sequence.
func (l WatchLog) EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error) {
	return l.Log.Event(ctx, namespace, seq)
}

// Secret returns a text that only the servers of this log can derive from a name.
func (l WatchLog) Secret(name string) (string, error) { return l.Log.Secret(name) }

// Has reports whether an event that is wanted is on a path after a position. It reads the events of
// the path after that position, until it finds one.
func (l WatchLog) Has(ctx context.Context, namespace string, path sluice.Path, after uint64, wanted func(*sluice.Event) bool) (bool, error) {
	first, _, err := l.Log.Bounds(ctx, namespace)
	if err != nil {
		return false, err
	}
	q := model.EventQuery{Pattern: sluice.Pattern(path), After: max(after, first, 1) - 1, Limit: 1, Visible: wanted}
	for {
		page, err := l.Log.Events(ctx, namespace, q)
		if err != nil || len(page.Events) > 0 || page.Next == 0 {
			return len(page.Events) > 0, err
		}
		q.After = page.Next
	}
}

// Announce stores a system event, under another ID if its own is taken by a different event.
func (l WatchLog) Announce(ctx context.Context, ev sluice.Event) error {
	return announce(ctx, l.Log, ev)
}

// announce stores a system event, like WatchLog.Announce. With the other ID, a repetition stores
// the event again.
func announce(ctx context.Context, log *eventlog.Log, ev sluice.Event) error {
	_, err := log.Publish(ctx, ev.Namespace, []sluice.Event{ev})
	if sluice.CodeOf(err) == sluice.Conflict { // another event has the same ID
		ev.ID += "-" + uuid.NewString()
		_, err = log.Publish(ctx, ev.Namespace, []sluice.Event{ev})
	}
	return err
}

// Teller publishes system events that must not be lost: callers retry until one is stored.
type Teller struct{ Log *eventlog.Log }

// Tell publishes a system event.
func (t Teller) Tell(ctx context.Context, namespace string, e model.SystemEvent) error {
	encoded, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("system event %s: %w", e.Kind, err)
	}
	return announce(ctx, t.Log, sluice.Event{
		Namespace: namespace, Path: e.Path, ID: e.ID, Type: e.Kind, Source: sluice.SystemSource,
		Time: time.Now().UTC(), ContentType: "application/json", Data: encoded,
	})
}

// ActionLog gives the performer of actions access to a namespace's log.
type ActionLog struct {
	*eventlog.Log

	Store *natsstore.Store
}

// Window returns the dedup window of a namespace.
func (l ActionLog) Window(ctx context.Context, namespace string) (time.Duration, error) {
	ns, err := l.Store.Namespaces().Get(ctx, namespace)
	return ns.DedupWindow.Std(), err
}

// StoredSince returns the sequence of an action's event that was published at a time or later, by
// the clock of any server; 0 if there is none.
func (l ActionLog) StoredSince(ctx context.Context, e *sluice.Event, since time.Time) (uint64, error) {
	return l.Log.StoredSince(ctx, e, since.Add(-clockSkew))
}

// Letters gives the publisher of system events access to dead letters.
type Letters struct {
	Store  *deliverystore.Store
	Stored natsstore.Subscriptions
}

// Follow passes new dead letters to tell.
func (l Letters) Follow(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error {
	return l.Store.FollowLetters(ctx, tell)
}

// Subscription returns a subscription.
func (l Letters) Subscription(ctx context.Context, id string) (*sluice.Subscription, error) {
	sub, _, err := l.Stored.Get(ctx, id)
	return sub, err
}

// clockSkew is the maximum difference between the clock of a change and that of the log.
const clockSkew = time.Hour

// Known looks up published system events in the log. It does not search in a log that refuses
// writes. Within half of the dedup window it finds none, because the log itself ignores a known ID
// then.
func Known(store *natsstore.Store, log *eventlog.Log) func(ctx context.Context, namespace string, path sluice.Path, ids []string, since time.Time) ([]string, error) {
	return func(ctx context.Context, namespace string, path sluice.Path, ids []string, since time.Time) (told []string, err error) {
		ns, err := store.Namespaces().Get(ctx, namespace)
		if err != nil || time.Since(since) < ns.DedupWindow.Std()/2 {
			return nil, err
		}
		q := model.EventQuery{Pattern: sluice.Pattern(path), Since: since.Add(-clockSkew).UTC().Format(time.RFC3339Nano), Limit: 1000}
		page, err := log.Events(ctx, namespace, q)
		if sluice.CodeOf(err) == sluice.WindowExceeded { // the log starts later
			q.Since = "-1"
			page, err = log.Events(ctx, namespace, q)
		}
		for err == nil {
			told = append(told, idsIn(page, ids)...)
			if page.Next == 0 {
				return told, nil
			}
			q.After = page.Next
			page, err = log.Events(ctx, namespace, q)
		}
		return nil, err
	}
}

func idsIn(page model.EventPage, of []string) (ids []string) {
	for i := range page.Events {
		if slices.Contains(of, page.Events[i].ID) {
			ids = append(ids, page.Events[i].ID)
		}
	}
	return ids
}

// GapsOf returns the ranges of the log of a namespace that are lost because of damage; nil: there
// are none.
type GapsOf func(namespace string) []sluice.Gap

func (g GapsOf) of(namespace string) []sluice.Gap {
	if g == nil {
		return nil
	}
	return g(namespace)
}

// EventLog gives the API access to the log. Lost may be nil.
type EventLog struct {
	Log  *eventlog.Log
	Lost GapsOf
}

// Read returns a page of events, with the gaps in it.
func (l EventLog) Read(ctx context.Context, namespace string, q model.EventQuery) (model.EventPage, error) {
	page, err := l.Log.Events(ctx, namespace, q)
	page.Gaps = sluice.GapsWithin(l.Lost.of(namespace), page.After, page.UpTo, func(p sluice.Path) bool { return q.Pattern == "" || q.Pattern.Match(p) })
	return page, err
}

// Changes returns a page of the changes of a namespace, with the gaps in it.
func (l EventLog) Changes(ctx context.Context, namespace string, q model.ChangeQuery) (sluice.ObservePage, error) {
	page, err := l.Log.Changes(ctx, namespace, q)
	page.Lost = sluice.Ranges(sluice.GapsWithin(l.Lost.of(namespace), q.Since, page.ThroughSeq, func(sluice.Path) bool { return true }))
	return page, err
}

// EventAt returns the event with the sequence.
func (l EventLog) EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error) {
	return l.Log.Event(ctx, namespace, seq)
}

// EventByID returns the event with the ID.
func (l EventLog) EventByID(ctx context.Context, namespace, id string) (sluice.Event, error) {
	return l.Log.EventByID(ctx, namespace, id)
}

// State returns a page of the state, with the gaps whose events may be missing from it. For a
// single path, gaps before its latest event are irrelevant.
func (l EventLog) State(ctx context.Context, namespace string, q model.StateQuery) (model.StatePage, error) {
	page, err := l.Log.State(ctx, namespace, q)
	after, wants := max(page.First, 1)-1, func(p sluice.Path) bool { return q.Pattern == "" || q.Pattern.Match(p) }
	if q.Path != "" {
		wants = func(p sluice.Path) bool { return p == q.Path }
		for i := range page.Events {
			after = page.Events[i].Seq
		}
	}
	page.Gaps = sluice.GapsWithin(l.Lost.of(namespace), after, page.Seq, wants)
	return page, err
}
