package app

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// receivers limits requests to endpoints, for every mode and protocol: their targets and their
// rate.
type receivers struct{ server *server }

// Check returns an error if the endpoint is not allowed.
func (r receivers) Check(ctx context.Context, endpoint sluice.Endpoint) error {
	return r.server.sender.Check(ctx, endpoint)
}

// Handshake returns the agreement of a subscription's endpoint. The request is charged to the
// caller, who chose the URL. Codes: Unprocessable if the endpoint does not agree; QuotaExceeded.
func (r receivers) Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error) {
	if err := r.pay(ctx, "", sub.Namespace); err != nil {
		return nil, err
	}
	return r.server.sender.Handshake(ctx, sub)
}

// PayForSend charges the caller for a request to a subscription's endpoint. Code QuotaExceeded.
func (r receivers) PayForSend(ctx context.Context, sub *sluice.Subscription) error {
	return r.pay(ctx, sub.ID, sub.Namespace)
}

func (r receivers) pay(ctx context.Context, subscription, namespace string) error {
	who := model.CallerFrom(ctx)
	if who.Unbounded() {
		return nil
	}
	return r.server.sends.Pay(subscription, r.server.answers(who, namespace), time.Now())
}

// Take counts a request to an endpoint with an agreed rate and returns 0, or returns the delay
// until the next request is allowed.
func (r receivers) Take(sub *sluice.Subscription, now time.Time) time.Duration {
	return r.server.paces.Take(r.receiver(sub), now)
}

// Return undoes Take for a request that was not sent.
func (r receivers) Return(sub *sluice.Subscription, now time.Time) {
	r.server.paces.Return(r.receiver(sub), now)
}

// now counts a request that is sent immediately. Code QuotaExceeded, with retry_after, if the rate
// that the endpoint agreed to is used up.
func (r receivers) now(sub *sluice.Subscription, now time.Time) error {
	if sub.Agreed == nil || sub.Agreed.RatePerMinute == 0 {
		return nil
	}
	if wait := r.Take(sub, now); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		return sluice.Errorf(sluice.QuotaExceeded, "the endpoint agreed to %d requests per minute, which are used up; retry in %d s", sub.Agreed.RatePerMinute, seconds).
			With("retry_after", seconds)
	}
	return nil
}

func (r receivers) receiver(sub *sluice.Subscription) quota.Receiver {
	return quota.Receiver{
		Principal: r.server.answers(authz.OwnerOf(sub), sub.Namespace), URL: sub.Endpoint.URL, PerMinute: sub.Agreed.RatePerMinute,
	}
}

// whenAll returns n functions; do is called once all of them have been called.
func whenAll(n int, do func()) []func() {
	var left atomic.Int64
	left.Store(int64(n))
	all := make([]func(), n)
	for i := range all {
		all[i] = sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				do()
			}
		})
	}
	return all
}
