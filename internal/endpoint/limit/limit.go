// Package limit limits the requests to endpoints of all modes and protocols: to which targets, and
// at which rate.
package limit

import (
	"context"
	"math"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Sender checks endpoints and asks for their agreement.
type Sender interface {
	Check(ctx context.Context, endpoint sluice.Endpoint) error
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
}

// Accountable finds the principal that is accountable for the use of a caller's grant in a
// namespace. An implementation does no I/O, because it is called for every request.
type Accountable interface {
	Answers(c sluice.Caller, namespace string, now time.Time) sluice.Principal
}

// Endpoints limits the requests to endpoints. All fields are required. It is safe for concurrent
// use.
type Endpoints struct {
	Sender Sender
	Sends  *quota.Sends
	Paces  *quota.Paces
	Rates  *quota.Rates
	Access Accountable
}

// Check returns an error if the endpoint is not allowed.
func (e Endpoints) Check(ctx context.Context, endpoint sluice.Endpoint) error {
	return e.Sender.Check(ctx, endpoint)
}

// Handshake asks a subscription's endpoint for its agreement. It charges the request to the caller,
// which chose the URL. Codes: Unprocessable if the endpoint does not agree; QuotaExceeded.
func (e Endpoints) Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error) {
	if err := e.pay(ctx, "", sub.Namespace); err != nil {
		return nil, err
	}
	return e.Sender.Handshake(ctx, sub)
}

// PayForSend charges the caller for a request to a subscription's endpoint. Code QuotaExceeded.
// Callers without bounds, such as the server itself, are not charged.
func (e Endpoints) PayForSend(ctx context.Context, sub *sluice.Subscription) error {
	return e.pay(ctx, sub.ID, sub.Namespace)
}

func (e Endpoints) pay(ctx context.Context, subscription, namespace string) error {
	who := model.CallerFrom(ctx)
	if who.Unbounded() {
		return nil
	}
	now := time.Now()
	return e.Sends.Pay(subscription, e.Access.Answers(who, namespace, now), now)
}

// Take counts a request to an endpoint with an agreed rate, or of a subscription that shares its
// rate with others, and returns 0. Without room it counts nothing, and returns how long to wait
// before asking again. The shared rate is taken first, and returned if the agreed one has no room,
// so that no subscription uses the shared room for requests that it does not send.
func (e Endpoints) Take(sub *sluice.Subscription, now time.Time) time.Duration {
	shared := sub.Policy.Rate.Key != ""
	if shared {
		if wait := e.Rates.Take(e.shared(sub), now); wait > 0 {
			return wait
		}
	}
	if !agreed(sub) {
		return 0
	}
	wait := e.Paces.Take(e.receiver(sub), now)
	if wait > 0 && shared {
		e.Rates.Return(e.shared(sub), now)
	}
	return wait
}

// Return undoes Take for a request that was not sent. Call it with the subscription that Take got,
// because a changed policy has another key.
func (e Endpoints) Return(sub *sluice.Subscription, now time.Time) {
	if sub.Policy.Rate.Key != "" {
		e.Rates.Return(e.shared(sub), now)
	}
	if agreed(sub) {
		e.Paces.Return(e.receiver(sub), now)
	}
}

func agreed(sub *sluice.Subscription) bool { return sub.Agreed != nil && sub.Agreed.RatePerMinute > 0 }

// TakeNow counts a request that is sent immediately. Code QuotaExceeded, with retry_after, if the
// rate that the endpoint agreed to is used up. It is for tests that an owner asks for, and does not
// count for a shared rate.
func (e Endpoints) TakeNow(sub *sluice.Subscription, now time.Time) error {
	if !agreed(sub) {
		return nil
	}
	if wait := e.Paces.Take(e.receiver(sub), now); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		return sluice.Errorf(sluice.QuotaExceeded, "the endpoint agreed to %d requests per minute, which are used up; retry in %d s", sub.Agreed.RatePerMinute, seconds).
			With("retry_after", seconds)
	}
	return nil
}

func (e Endpoints) receiver(sub *sluice.Subscription) quota.Receiver {
	return quota.Receiver{
		Principal: e.Access.Answers(authz.OwnerOf(sub), sub.Namespace, time.Now()), URL: sub.Endpoint.URL, PerMinute: sub.Agreed.RatePerMinute,
	}
}

func (e Endpoints) shared(sub *sluice.Subscription) quota.SharedRate {
	return quota.SharedRate{Principal: e.Access.Answers(authz.OwnerOf(sub), sub.Namespace, time.Now()), Namespace: sub.Namespace, Rate: sub.Policy.Rate}
}
