package authz

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// AnswersNow is Answers at the current time.
func (x *Index) AnswersNow(c sluice.Caller, namespace string) sluice.Principal {
	return x.Answers(c, namespace, time.Now())
}

// Payer returns the principal that is charged for a subscription's filter; "" for the operator.
func (x *Index) Payer(sub *sluice.Subscription) string {
	return x.PayerOf(sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant}, sub.Namespace)
}

// PayerOf returns the principal that is charged for a caller's expressions; "" for the operator.
func (x *Index) PayerOf(c sluice.Caller, namespace string) string {
	if c.Grant == "" {
		return ""
	}
	return string(x.AnswersNow(c, namespace))
}

// MayKnow reports whether a publishing caller may learn that an event is stored.
func (x *Index) MayKnow(ctx context.Context, ev *sluice.Event) bool {
	who := model.CallerFrom(ctx)
	return who.Unbounded() || x.Shows(who, sluice.VerbPublish, ev, time.Now()) == model.Pass
}

// Subscribing decides about permissions to subscribe.
type Subscribing struct{ Index *Index }

// MaySubscribe returns an error unless the caller may access everything that the subscription
// covers.
func (s Subscribing) MaySubscribe(ctx context.Context, sub *sluice.Subscription) error {
	return s.Index.Require(model.CallerFrom(ctx), sluice.VerbSubscribe, TargetOf(sub.Object()), time.Now())
}

// Owns reports whether the caller is the creator of the subscription. The caller must have the
// principal of the creator.
func (s Subscribing) Owns(ctx context.Context, sub *sluice.Subscription) bool {
	who := model.CallerFrom(ctx)
	return who.Unbounded() || s.Index.Same(who, sub.Grant, sluice.Object{Namespace: sub.Namespace}, time.Now())
}

// Shows reports whether the caller may see an event.
func (s Subscribing) Shows(ctx context.Context, ev *sluice.Event) bool {
	return s.Index.Shows(model.CallerFrom(ctx), sluice.VerbSubscribe, ev, time.Now()) == model.Pass
}

// StreamGate decides about the permissions of the creators of stream subscriptions.
type StreamGate struct{ Index *Index }

// Shows decides whether a caller may learn that a stream ends at a position.
func (g StreamGate) Shows(who sluice.Caller, namespace string, path sluice.Path, seq uint64) model.Decision {
	return g.Index.Shows(who, sluice.VerbSubscribe, &sluice.Event{Namespace: namespace, Path: path, Seq: seq}, time.Now())
}

// Writes decides whether a caller may append to a stream.
func (g StreamGate) Writes(who sluice.Caller, namespace string, path sluice.Path) model.Decision {
	err := g.Index.Require(who, sluice.VerbPublish, Target{Namespace: namespace, Path: path}, time.Now())
	switch {
	case err == nil:
		return model.Pass
	case sluice.CodeOf(err) == sluice.Unavailable:
		return model.Undecided
	}
	return model.Lost
}

// Holds decides whether the owner of a subscription still has any access.
func (g StreamGate) Holds(wish *sluice.Subscription) model.Decision {
	return g.Index.Holds(wish, time.Now())
}

// WatchGate decides about the read permissions of the creators of watches.
type WatchGate struct {
	Index *Index
	Now   func() time.Time
}

// settled is how long after its creation a grant may still be unknown to a replica.
const settled = time.Minute

// Shows decides whether a creator may read an event. A grant that ended so long ago that its record
// was removed permits nothing.
func (g WatchGate) Shows(c sluice.Creator, ev *sluice.Event) model.Decision {
	now := g.Now()
	d := g.Index.Shows(c.Caller(), sluice.VerbRead, ev, now)
	if d != model.Undecided || g.Index.Ready(now) != nil || now.Sub(c.CreatedAt) < settled {
		return d
	}
	if _, known := g.Index.Grant(c.Grant); !known {
		return model.Lost
	}
	return d
}

// Applied returns a channel that is closed when the decisions may have changed.
func (g WatchGate) Applied() (uint64, <-chan struct{}) { return g.Index.Applied() }
