package sysevent

import (
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// breakerData is the data of subscription.breaker_opened and subscription.breaker_closed.
type breakerData struct {
	ID      string         `json:"id"`
	Breaker sluice.Breaker `json:"breaker"`
	URL     string         `json:"url"` // only the host
	At      time.Time      `json:"at"`
}

// Turned announces that the breaker of a subscription opened or closed. It returns at once. A
// failed announcement is lost.
func (a *Announcer) Turned(sub *sluice.Subscription, to sluice.Breaker, at time.Time) {
	if aboutSystem(sub.Pattern) {
		return // the failing endpoint itself would receive the event
	}
	kind := sluice.TypeBreakerClosed
	if to == sluice.BreakerOpen {
		kind = sluice.TypeBreakerOpened
	}
	at = at.UTC()
	a.enqueue(announcement{
		namespace: sub.Namespace, path: sluice.SubscriptionPath(sub.ID), kind: kind, at: at,
		id: fmt.Sprintf("breaker-%s-%d", sub.ID, at.UnixNano()), data: breakerData{sub.ID, to, sluice.HideURL(sub.Endpoint.URL), at},
	})
}
