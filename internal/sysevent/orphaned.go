package sysevent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// orphansLimit limits the duration of the scan at start.
const orphansLimit = 30 * time.Second

// Orphaned announces that subscriptions of a namespace name a type that its catalogue no longer has
// (S2-47). It takes at most two seconds; a failure is logged. Servers that start at the same time
// announce the same observation once. FirstObservedAt is required. A failed announcement is not
// retried.
func (a *Announcer) Orphaned(ctx context.Context, of sluice.OrphanedType) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	of.FirstObservedAt = of.FirstObservedAt.UTC()
	a.publish(ctx, announcement{
		namespace: of.Namespace, path: sluice.EventTypePath(of.Type), kind: sluice.TypeEventTypeOrphaned, data: of,
		id: fmt.Sprintf("orphaned-%s-%d-%d", of.Type, of.Count, of.FirstObservedAt.Truncate(time.Minute).Unix()),
	})
}

// Orphans announces orphaned types at the start of a server. All fields are required.
type Orphans struct {
	Announcer     *Announcer
	Subscriptions interface {
		List(ctx context.Context) ([]*sluice.Subscription, error)
	}
	// Find returns the orphaned types of subscriptions, without FirstObservedAt.
	Find func([]*sluice.Subscription) []sluice.OrphanedType
	// State reads the system events that were announced before.
	State func(ctx context.Context, namespace string, q model.StateQuery) (model.StatePage, error)
	Log   *slog.Logger
}

// Run announces once the types that subscriptions name but that are no longer in their catalogues
// (S2-47), and then waits for ctx. It returns nil. A failure of the check is logged and not
// repeated before the next start.
func (o Orphans) Run(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, orphansLimit)
	defer cancel()
	if err := o.announce(limit); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "types removed from their catalogue not checked", slog.Any("error", err))
	}
	<-ctx.Done()
	return nil
}

// announce announces the orphaned types. A type is announced again only if the number of its
// subscriptions has changed.
func (o Orphans) announce(ctx context.Context) error {
	subs, err := o.Subscriptions.List(ctx)
	if err != nil {
		return fmt.Errorf("list subscriptions: %w", err)
	}
	for _, orphan := range o.Find(subs) {
		last, err := o.last(ctx, orphan)
		if err != nil {
			return err
		}
		if last.Count == orphan.Count {
			continue
		}
		if orphan.FirstObservedAt = last.FirstObservedAt; orphan.FirstObservedAt.IsZero() {
			orphan.FirstObservedAt = time.Now()
		}
		o.Log.WarnContext(ctx, "subscriptions name a type that is no longer in the catalogue",
			slog.String("namespace", orphan.Namespace), slog.String("type", orphan.Type), slog.Int("subscriptions", orphan.Count))
		o.Announcer.Orphaned(ctx, orphan)
	}
	return nil
}

// last returns the data of the last system event about an orphaned type; the zero value if the log
// has none.
func (o Orphans) last(ctx context.Context, of sluice.OrphanedType) (last sluice.OrphanedType, err error) {
	state, err := o.State(ctx, of.Namespace, model.StateQuery{Path: sluice.EventTypePath(of.Type), Limit: 1})
	if err != nil || len(state.Events) == 0 {
		return last, err
	}
	if err := json.Unmarshal(state.Events[0].Data, &last); err != nil {
		return last, fmt.Errorf("published system events of %s in %s: %w", of.Type, of.Namespace, err)
	}
	return last, nil
}
