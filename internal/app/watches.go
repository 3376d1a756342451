package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// openWatches constructs the watch engine and the watch keeper.
func (s *server) openWatches(context.Context) error {
	log := watchLog{feedLog{s.store}}
	perform := action.New(action.Needs{
		Publisher: begun{s.published(s.store)}, Access: s.trust.index, Catalogue: s.catalogue,
		Causes: reactions{s.causes}, Quota: s.quotas, Now: time.Now,
	})
	store := watchStore{
		Instructions: natsstore.OpenInstructions[watch.Stored](s.store, sluice.KindWatch),
		records:      natsstore.OpenBucket[watch.Record](s.store, streams.Watches),
	}
	s.watches = watch.New(watch.Ports{
		Definitions: store, Records: store.records, Log: log, Gate: watchGate{s.trust.index, time.Now},
		Perform: performer{perform}, Owns: s.owns.part(),
	}, watch.Options{
		Most: s.cfg.Watches.EvaluationsPerSecond, Paths: s.cfg.Watches.Paths, Labels: s.catalogue.Labels, Log: s.opts.Log,
		Observe: s.metrics.Watches(s.watchMoments),
	})
	s.watchKeeper = watch.NewKeeper(watch.Needs{
		Store: store, Log: log, Ledger: s.ledger, Most: s.cfg.Watches.PerNamespace, Slog: s.opts.Log,
		Trials: watch.Options{Most: s.cfg.Watches.EvaluationsPerSecond, Paths: s.cfg.Watches.Paths, Labels: s.catalogue.Labels},
	})
	// Everything that acts on behalf of a caller.
	s.trust.follower.Withdraw = withdrawing{s.engine, s.wakes, s.dsubs, s.perform, s.watches}
	return nil
}

// watchMoments returns the metrics of the watches that this process runs.
func (s *server) watchMoments() []metrics.Watch {
	var all []metrics.Watch
	for _, g := range s.watches.Gauges() {
		all = append(all, metrics.Watch{Namespace: g.Namespace, ID: g.Watch, LagSeconds: g.Lag.Seconds()})
	}
	return all
}

// watchStore stores watches.
type watchStore struct {
	natsstore.Instructions[watch.Stored]

	records natsstore.Bucket[watch.Record]
}

// Watch calls change for every watch.
func (w watchStore) Watch(ctx context.Context, change func(key string, w *watch.Stored)) error {
	return w.Instructions.Watch(ctx, func(i natsstore.Instruction[watch.Stored]) {
		switch i.Change {
		case natsstore.Set:
			i.Value.Revision = i.Revision
			change(streams.WatchKey(i.Namespace, i.ID), &i.Value)
		case natsstore.Removed:
			change(streams.WatchKey(i.Namespace, i.ID), nil)
		case natsstore.CaughtUp:
		}
	})
}

// All returns the stored watches of a namespace.
func (w watchStore) All(ctx context.Context, namespace string) ([]watch.Stored, error) {
	entries, err := w.List(ctx, namespace)
	all := make([]watch.Stored, len(entries))
	for i, e := range entries {
		all[i] = e.Value
		all[i].Revision = e.Revision
	}
	return all, err
}

// Record returns the progress of a watch.
func (w watchStore) Record(ctx context.Context, namespace, id string) (watch.Record, error) {
	record, _, err := w.records.Get(ctx, streams.WatchKey(namespace, id))
	return record, err
}

// Records returns a lookup of the progress of a namespace's watches.
func (w watchStore) Records(ctx context.Context, namespace string) (func(id string) watch.Record, error) {
	entries, err := w.records.List(ctx, streams.WatchKeys(namespace))
	all := make(map[string]watch.Record, len(entries))
	for _, e := range entries {
		all[e.Key] = e.Value
	}
	return func(id string) watch.Record { return all[streams.WatchKey(namespace, id)] }, err
}

// Forget removes the progress of a watch.
func (w watchStore) Forget(ctx context.Context, namespace, id string) error {
	return w.records.Delete(ctx, streams.WatchKey(namespace, id), 0)
}

// watchLog gives watches access to the log.
type watchLog struct{ feedLog }

// EventAt returns the event with a sequence.
func (l watchLog) EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error) {
	return l.store.Event(ctx, namespace, seq)
}

// Has reports whether an event with the ID is on a path after a position.
func (l watchLog) Has(ctx context.Context, namespace string, path sluice.Path, id string, after uint64) (bool, error) {
	first, _, err := l.store.Bounds(ctx, namespace)
	if err != nil {
		return false, err
	}
	q := natsstore.EventQuery{
		Pattern: sluice.Pattern(path), After: max(after, first, 1) - 1, Limit: 1,
		Visible: func(ev *sluice.Event) bool { return ev.ID == id },
	}
	for {
		page, err := l.store.Events(ctx, namespace, q)
		if err != nil || len(page.Events) > 0 || page.NextCursor == 0 {
			return len(page.Events) > 0, err
		}
		q.After = page.NextCursor
	}
}

// Announce stores a system event, under another ID if its own is taken by a different event.
func (l watchLog) Announce(ctx context.Context, ev sluice.Event) error {
	_, err := l.store.Publish(ctx, ev.Namespace, []sluice.Event{ev})
	if sluice.CodeOf(err) == sluice.Conflict {
		ev.ID += "-" + uuid.NewString()
		_, err = l.store.Publish(ctx, ev.Namespace, []sluice.Event{ev})
	}
	return err
}

// watchGate decides about the read permissions of watches' creators.
type watchGate struct {
	index *authz.Index
	now   func() time.Time
}

// settled is how long a grant may be unknown to a server because it was just created.
const settled = time.Minute

// Shows decides whether a creator may read an event. A grant that ended so long ago that its record
// was removed permits nothing.
func (g watchGate) Shows(c sluice.Creator, ev *sluice.Event) model.Decision {
	now := g.now()
	d := g.index.Shows(c.Caller(), sluice.VerbRead, ev, now)
	if d != model.Undecided || g.index.Ready(now) != nil || now.Sub(c.CreatedAt) < settled {
		return d
	}
	if _, known := g.index.Grant(c.Grant); !known {
		return model.Lost
	}
	return d
}

// Applied returns a channel that is closed when the decisions may have changed.
func (g watchGate) Applied() (uint64, <-chan struct{}) { return g.index.Applied() }

// performer performs the actions of watches.
type performer struct{ perform *action.Performer }

// Perform publishes the event of an action.
func (p performer) Perform(ctx context.Context, by sluice.Creator, ev sluice.Event) error {
	_, err := p.perform.Perform(ctx, action.Firing{Creator: by, Event: ev})
	return err
}

// reactions refuses causation loops among events that the server publishes in reaction to others.
type reactions struct{ guard *loopguard.Guard }

// CheckNew returns an error if one of the events is part of a causation loop.
func (r reactions) CheckNew(ctx context.Context, namespace, by string, events []sluice.Event) error {
	for i := range events {
		if err := r.guard.CheckReaction(ctx, namespace, by, &events[i]); err != nil {
			return err
		}
	}
	return nil
}
