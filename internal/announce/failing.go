package announce

import (
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// failingData is the data of subscription.failing.
type failingData struct {
	ID         string    `json:"id"`
	Percent    int       `json:"percent"` // of the way to being disabled
	Since      time.Time `json:"since"`   // every attempt has failed
	DisabledAt time.Time `json:"disabled_at"`
}

// Failing tells that every attempt has failed for so many per cent of the time after which the
// subscription is disabled. It returns at once.
func (a *Announcer) Failing(sub *sluice.Subscription, percent int, since time.Time) {
	if aboutSystem(sub.Pattern) {
		return
	}
	since = since.UTC()
	a.enqueue(announcement{
		namespace: sub.Namespace, path: sluice.SubscriptionPath(sub.ID), kind: sluice.TypeSubscriptionFailing,
		id:   fmt.Sprintf("failing-%s-%d-%d", sub.ID, since.Unix(), percent), // each step of a streak is told of once
		data: failingData{ID: sub.ID, Percent: percent, Since: since, DisabledAt: since.Add(sub.Policy.DisableAfter.Std())},
	})
}
