package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// orphansLimit limits the duration of the scan at start.
const orphansLimit = 30 * time.Second

// lookForOrphans publishes, once, the event types that subscriptions name and that are no longer in
// their catalogues (S2-47), and then waits for ctx.
func (s *server) lookForOrphans(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, orphansLimit)
	defer cancel()
	if err := s.tellOrphans(limit); err != nil && ctx.Err() == nil {
		s.opts.Log.WarnContext(ctx, "types removed from their catalogue not checked", slog.Any("error", err))
	}
	<-ctx.Done()
	return nil
}

func (s *server) tellOrphans(ctx context.Context) error {
	page, err := s.registry.List(ctx, subscription.Query{})
	if err != nil {
		return err
	}
	orphans, count := s.catalogue.Orphans(page.Subscriptions)
	for _, o := range orphans {
		told, err := s.lastTold(ctx, o)
		if err != nil {
			return err
		}
		if told.Count == count[o] {
			continue
		}
		now := sysevent.Orphaned{Type: o.Type, Count: count[o], FirstObservedAt: told.FirstObservedAt}
		if now.FirstObservedAt.IsZero() {
			now.FirstObservedAt = time.Now()
		}
		s.opts.Log.WarnContext(ctx, "subscriptions name a type that is no longer in the catalogue",
			slog.String("namespace", o.Namespace), slog.String("type", o.Type), slog.Int("subscriptions", now.Count))
		s.announce.Orphaned(ctx, o.Namespace, now)
	}
	return nil
}

// lastTold returns the last system event about an orphan; the zero value if there is none in the
// log.
func (s *server) lastTold(ctx context.Context, o catalogue.Orphan) (told sysevent.Orphaned, err error) {
	state, err := s.store.State(ctx, o.Namespace, model.StateQuery{Path: sluice.EventTypePath(o.Type), Limit: 1})
	if err != nil || len(state.Events) == 0 {
		return told, err
	}
	if err := json.Unmarshal(state.Events[0].Data, &told); err != nil {
		return told, fmt.Errorf("published system events of %s in %s: %w", o.Type, o.Namespace, err)
	}
	return told, nil
}
