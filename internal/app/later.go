package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/delayed"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openLater constructs the engine of scheduled events.
func (s *server) openLater(context.Context) error {
	s.perform = &performing{Performer: action.New(action.Needs{
		Log: laterLog{s.store}, Publisher: begun{s.published(s.store)}, Access: s.trust.index, Catalogue: s.catalogue, Causes: s.causes, Quota: s.quotas, Now: time.Now,
	})}
	s.later = delayed.New(delayed.Needs{
		Records: s.store.Scheduled(),
		Lists:   s.store.Scheduled(),
		Log:     s.store,
		Perform: s.perform,
		Tell:    teller{s.store},
		Owner:   s.owns.part(),
		Ledger:  s.ledger,
		Replica: s.replica,
		Now:     time.Now,
	}, delayed.Options{Most: s.cfg.Limits.ScheduledPerNamespace, Ahead: s.cfg.Limits.ScheduleAhead.Std(), Log: s.opts.Log, Observe: s.metrics})
	return nil
}

// laterLog gives the engine access to a namespace's log.
type laterLog struct{ *natsstore.Store }

// Window returns the dedup window of a namespace.
func (l laterLog) Window(ctx context.Context, namespace string) (time.Duration, error) {
	ns, err := l.GetNamespace(ctx, namespace)
	return ns.DedupWindow.Std(), err
}

// EventByID returns an event of any age, so that an action that was already performed is not
// repeated.
func (l laterLog) EventByID(ctx context.Context, namespace, id string) (sluice.Event, error) {
	return l.EventByIDAnywhere(ctx, namespace, id)
}

// teller publishes system events that must not be lost: callers retry until one is stored.
type teller struct{ store *natsstore.Store }

// Tell publishes a system event.
func (t teller) Tell(ctx context.Context, namespace string, e model.SystemEvent) error {
	encoded, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("system event %s: %w", e.Kind, err)
	}
	event := sluice.Event{
		Namespace: namespace, Path: e.Path, ID: e.ID, Type: e.Kind, Source: sluice.SystemSource,
		Time: time.Now().UTC(), ContentType: "application/json", Data: encoded,
	}
	_, err = t.store.Publish(ctx, namespace, []sluice.Event{event})
	if sluice.CodeOf(err) == sluice.Conflict { // another event has the same ID
		event.ID += "-" + uuid.NewString()
		_, err = t.store.Publish(ctx, namespace, []sluice.Event{event})
	}
	return err
}
