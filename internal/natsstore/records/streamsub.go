package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// streamSubscription is the stored form of a subscription: the URL of its webhook is sealed.
type streamSubscription struct{ streamsub.Subscription }

// Transformed returns a copy with f applied to the URL.
func (r streamSubscription) Transformed(key string, f natsstore.Transform) (_ streamSubscription, err error) {
	if r.Config.URL != "" { // only for a webhook
		r.Config.URL, err = f(r.Config.URL, seal.Place(streams.StreamWakes, key, "url"))
	}
	return r, err
}

// SealedBuckets returns the buckets of this package whose records have sealed parts.
func SealedBuckets() []natsstore.SealedBucket {
	return []natsstore.SealedBucket{natsstore.SealedIn[streamSubscription](streams.StreamWakes), natsstore.SealedIn[credential](streams.Credentials)}
}

// Counts counts subscriptions for their quota.
type Counts interface {
	Set(sub *sluice.Subscription)
	Remove(id string)
}

// StreamSubscriptions stores the subscriptions of the Durable Streams protocol, and reports changes
// to the quota counters.
type StreamSubscriptions struct {
	bucket   natsstore.Sealed[streamSubscription]
	counts   Counts
	caughtUp func()
}

var _ streamsub.Records = StreamSubscriptions{}

// NewStreamSubscriptions returns the records; caughtUp is called once all stored ones are counted.
func NewStreamSubscriptions(store *natsstore.Store, counts Counts, caughtUp func()) StreamSubscriptions {
	return StreamSubscriptions{natsstore.OpenSealed[streamSubscription](store, streams.StreamWakes), counts, caughtUp}
}

// Get returns a subscription and its revision.
func (r StreamSubscriptions) Get(ctx context.Context, key string) (streamsub.Subscription, uint64, error) {
	record, revision, err := r.bucket.Get(ctx, key)
	return record.Subscription, revision, err
}

// Put stores a subscription. Code Conflict unless the stored revision is the given one.
func (r StreamSubscriptions) Put(ctx context.Context, key string, s streamsub.Subscription, revision uint64) (uint64, error) {
	return r.bucket.Put(ctx, key, streamSubscription{s}, revision)
}

// Delete removes a subscription. Code Conflict unless the stored revision is the given one.
func (r StreamSubscriptions) Delete(ctx context.Context, key string, revision uint64) error {
	return r.bucket.Delete(ctx, key, revision)
}

// Watch calls change for every subscription. A removed one is nil. The counters are updated before
// the call.
func (r StreamSubscriptions) Watch(ctx context.Context, change func(key string, s *streamsub.Subscription, revision uint64)) error {
	return r.bucket.Watch(ctx, changes[streamSubscription]{
		set: func(e natsstore.Entry[streamSubscription]) {
			r.counts.Set(e.Value.Sends())
			change(e.Key, &e.Value.Subscription, e.Revision)
		},
		removed: func(key string, revision uint64) {
			r.counts.Remove(streamsub.CountedID(key))
			change(key, nil, revision)
		},
		caughtUp: r.caughtUp,
	}.handle)
}

// StreamLogs reads the ends of logs for stream subscriptions.
type StreamLogs struct {
	*eventlog.Log

	Namespaces natsstore.Namespaces
}

var _ streamsub.Logs = StreamLogs{}

// FollowTails is Log.FollowTails. Code NotFound only if there is no such namespace.
func (l StreamLogs) FollowTails(ctx context.Context, namespace string, tell func(sluice.Path, uint64)) error {
	return l.damaged(ctx, namespace, l.Log.FollowTails(ctx, namespace, tell))
}

// LastSeq returns the end of a log. Code NotFound only if there is no such namespace.
func (l StreamLogs) LastSeq(ctx context.Context, namespace string) (uint64, error) {
	last, err := l.Log.LastSeq(ctx, namespace)
	return last, l.damaged(ctx, namespace, err)
}

// damaged replaces the code NotFound by Unavailable if the namespace exists and only its log was
// deleted: its subscriptions wait until that is repaired.
func (l StreamLogs) damaged(ctx context.Context, namespace string, err error) error {
	if sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	exists, failed := l.Namespaces.Exists(ctx, namespace)
	switch {
	case failed != nil:
		return failed
	case exists:
		return sluice.Errorf(sluice.Unavailable, "the log of the namespace %s is missing in NATS", namespace)
	}
	return err
}
