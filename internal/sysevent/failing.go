package sysevent

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
	a.enqueue(failing(sub, percent, since))
}

// StillFailing has it told how far the subscription's failure had come when that was stored, if it was not told.
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
		at:   since.Add(after / 100 * time.Duration(percent)),                // it is told after it came so far
		id:   fmt.Sprintf("failing-%s-%d-%d", sub.ID, since.Unix(), percent), // each step of a streak is told of once
		data: failingData{ID: sub.ID, Percent: percent, Since: since, DisabledAt: since.Add(after)},
	}
}
