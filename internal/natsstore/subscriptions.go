package natsstore

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// subscriptionRecord is a subscription as it is stored: with what never leaves the server.
type subscriptionRecord struct {
	Subscription sluice.Subscription `json:"subscription"`
	From         sluice.StartAt      `json:"from"`
	Secrets      []sluice.Secret     `json:"secrets"`
}

func (r *subscriptionRecord) subscription(revision uint64) *sluice.Subscription {
	sub := r.Subscription
	sub.From, sub.Secrets, sub.Revision = r.From, r.Secrets, revision
	return &sub
}

// Subscriptions keeps the subscriptions by id, their secrets and their resolved starts
// included. Revision is the record's, whatever is stored.
type Subscriptions struct{ bucket Bucket[subscriptionRecord] }

// Subscriptions returns the bucket of the subscriptions.
func (s *Store) Subscriptions() Subscriptions {
	return Subscriptions{OpenBucket[subscriptionRecord](s, streams.Subscriptions)}
}

// Get returns the subscription and its revision. Code NotFound if there is none.
func (s Subscriptions) Get(ctx context.Context, id string) (*sluice.Subscription, uint64, error) {
	record, revision, err := s.bucket.Get(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	return record.subscription(revision), revision, nil
}

// Put stores the subscription and returns its new revision. Code Conflict unless the stored
// revision is the given one; 0 stands for "nothing is stored".
func (s Subscriptions) Put(ctx context.Context, id string, sub *sluice.Subscription, revision uint64) (uint64, error) {
	record := subscriptionRecord{Subscription: *sub, From: sub.From, Secrets: sub.Secrets}
	record.Subscription.Revision = 0
	return s.bucket.Put(ctx, id, record, revision)
}

// Delete removes the subscription. Code Conflict unless the stored revision is the given one.
func (s Subscriptions) Delete(ctx context.Context, id string, revision uint64) error {
	return s.bucket.Delete(ctx, id, revision)
}

// List returns all subscriptions, in the order of their last change.
func (s Subscriptions) List(ctx context.Context) ([]*sluice.Subscription, error) {
	entries, err := s.bucket.List(ctx, ">")
	if err != nil {
		return nil, err
	}
	all := make([]*sluice.Subscription, len(entries))
	for i, e := range entries {
		all[i] = e.Value.subscription(e.Revision)
	}
	return all, nil
}

// Watch tells of every subscription as Bucket.Watch does; the value of a removal is nil.
func (s Subscriptions) Watch(ctx context.Context, f func(Entry[*sluice.Subscription])) error {
	return s.bucket.Watch(ctx, ">", func(e Entry[subscriptionRecord]) {
		told := Entry[*sluice.Subscription]{Key: e.Key, Revision: e.Revision, Change: e.Change}
		if e.Change == Set {
			told.Value = e.Value.subscription(e.Revision)
		}
		f(told)
	})
}
