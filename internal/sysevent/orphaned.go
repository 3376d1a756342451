package sysevent

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Orphaned is the data of event_type.orphaned.
type Orphaned struct {
	Type            string    `json:"type"`
	Count           int       `json:"count"` // subscriptions that name it
	FirstObservedAt time.Time `json:"first_observed_at"`
}

// Orphaned announces that subscriptions of a namespace name a type that its catalogue does not have
// any more (S2-47). It takes two seconds at most; a failure is logged. Servers that start at once
// and observe the same announce it once.
func (a *Announcer) Orphaned(ctx context.Context, namespace string, of Orphaned) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	of.FirstObservedAt = of.FirstObservedAt.UTC()
	a.publish(ctx, announcement{
		namespace: namespace, path: sluice.EventTypePath(of.Type), kind: sluice.TypeEventTypeOrphaned, data: of,
		id: fmt.Sprintf("orphaned-%s-%d-%d", of.Type, of.Count, of.FirstObservedAt.Truncate(time.Minute).Unix()),
	})
}
