package subscription

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Statuses reports the state of deliveries.
type Statuses interface {
	// Status returns the status of a subscription.
	Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error)
	// LastAttemptAt returns when the last attempt was recorded; zero: never.
	LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
}

// Sender makes attempts.
type Sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt
}

// Pace limits requests to the rate that an endpoint has agreed to.
type Pace interface {
	// TakeNow counts a request that is sent immediately. Code QuotaExceeded if the rate is used up.
	TakeNow(sub *sluice.Subscription, now time.Time) error
}

// Deliveries reports the deliveries of a subscription, and tests its endpoint.
type Deliveries struct {
	Statuses

	Sender Sender
	Pace   Pace
}

// Test sends a test event, which is not stored in a log. Without an event type, the server chooses
// type and data. Codes: Conflict if the subscription was cancelled, because nothing more is sent to
// its endpoint (S0-64); QuotaExceeded if the rate that the endpoint agreed to is used up.
func (d Deliveries) Test(ctx context.Context, sub *sluice.Subscription, eventType string, data []byte) (sluice.Attempt, error) {
	if sub.State == sluice.Cancelled {
		return sluice.Attempt{}, sluice.Errorf(sluice.Conflict, "subscription %q was cancelled (%s); create a new one", sub.ID, sub.Reason)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return sluice.Attempt{}, fmt.Errorf("generate an ID: %w", err)
	}
	now := time.Now().UTC()
	if err := d.Pace.TakeNow(sub, now); err != nil {
		return sluice.Attempt{}, err
	}
	if eventType == "" {
		eventType, data = "sys.test", []byte(`{"message":"a test of subscription `+sub.ID+`"}`)
	}
	a := d.Sender.Send(ctx, sub, &sluice.Event{
		Namespace: sub.Namespace, Path: "/_sys/test", ID: id.String(), Type: eventType, Source: "/subscriptions/" + sub.ID,
		Time: now, Stored: now, ContentType: "application/json", Data: data,
	}, 1)
	a.Outcome = cmp.Or(a.Outcome, sluice.Failed) // a test that was not made is not repeated
	return a, nil
}
