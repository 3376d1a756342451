package sysevent

import (
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// failingData is the data of subscription.failing.
type failingData struct {
	ID         string    `json:"id"`
	Percent    int       `json:"percent"` // of the time until it is disabled
	Since      time.Time `json:"since"`   // every attempt has failed
	DisabledAt time.Time `json:"disabled_at"`
}

// Failing announces that every attempt has failed for percent of the time after which the
// subscription is disabled. It returns at once. The event's time is that at which the percentage
// was reached, not that of the call.
func (a *Announcer) Failing(sub *sluice.Subscription, percent int, since time.Time) {
	if aboutSystem(sub.Pattern) {
		return
	}
	a.enqueue(failing(sub, percent, since))
}

// StillFailing announces the stored progress of a subscription's failure, unless that is published
// already.
func (a *Announcer) StillFailing(sub *sluice.Subscription, percent int, since time.Time) {
	if !aboutSystem(sub.Pattern) {
		a.again(failing(sub, percent, since))
	}
}

func failing(sub *sluice.Subscription, percent int, since time.Time) announcement {
	since = since.UTC()
	after := sub.Policy.DisableAfter.Std()
	return announcement{
		namespace: sub.Namespace, path: sluice.SubscriptionPath(sub.ID), kind: sluice.TypeSubscriptionFailing, stored: true,
		at:   since.Add(after / 100 * time.Duration(percent)),                // announced at this time at the earliest
		id:   fmt.Sprintf("failing-%s-%d-%d", sub.ID, since.Unix(), percent), // each step of a streak is announced once
		data: failingData{ID: sub.ID, Percent: percent, Since: since, DisabledAt: since.Add(after)},
	}
}
