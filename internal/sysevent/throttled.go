package sysevent

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// throttled counts for each subscription the delays by limits that are not announced yet. It is
// safe for concurrent use.
type throttled struct {
	fresh chan struct{} // signals a delay of a subscription that was not delayed recently

	mu     sync.Mutex
	counts map[string]*count // by subscription
}

type count struct {
	sub    *sluice.Subscription
	reason string
	n      int       // since the last announcement
	told   time.Time // zero: never
}

// throttledData is the data of subscription.throttled.
type throttledData struct {
	ID     string       `json:"id"`
	State  sluice.State `json:"state"`
	Reason string       `json:"reason"`
	Count  int          `json:"count"` // delays since the previous event
}

// Throttled announces that a limit delayed a subscription. The first delay is announced at once,
// later ones at most once a second for each subscription, with the number of delays since. It
// returns at once. A failed announcement is lost with its number of delays.
func (a *Announcer) Throttled(sub *sluice.Subscription, reason string) {
	if aboutSystem(sub.Pattern) {
		return // each of its events would delay it further
	}
	t := &a.throttled
	t.mu.Lock()
	c, known := t.counts[sub.ID]
	if !known {
		c = &count{}
		t.counts[sub.ID] = c
	}
	c.sub, c.reason = sub, reason
	c.n++
	t.mu.Unlock()
	if known {
		return // Run checks again within a second
	}
	select {
	case t.fresh <- struct{}{}:
	default: // it is about to check
	}
}

// take returns the due announcements, and forgets subscriptions that have not been delayed for a
// while.
func (t *throttled) take(now time.Time, every time.Duration) []count {
	t.mu.Lock()
	defer t.mu.Unlock()
	var due []count
	for id, c := range t.counts {
		if now.Sub(c.told) < every {
			continue
		}
		if c.n == 0 {
			delete(t.counts, id)
			continue
		}
		due = append(due, *c)
		c.n, c.told = 0, now
	}
	return due
}

func (a *Announcer) tellThrottled(ctx context.Context) {
	for _, c := range a.throttled.take(time.Now(), a.opts.Every) {
		a.publishQueued(ctx, announcement{
			namespace: c.sub.Namespace, path: sluice.SubscriptionPath(c.sub.ID), kind: sluice.TypeSubscriptionThrottled,
			data: throttledData{ID: c.sub.ID, State: c.sub.State, Reason: c.reason, Count: c.n},
		})
	}
}
