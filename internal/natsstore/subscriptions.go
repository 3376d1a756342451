package natsstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// subscriptionRecord is a stored subscription, with the parts that never leave the server. The
// secrets, the credentials, and the URL and the header values of the endpoint are sealed.
type subscriptionRecord struct {
	Subscription sluice.Subscription `json:"subscription"`
	From         sluice.StartAt      `json:"from"`
	Secrets      []sluice.Secret     `json:"secrets"`
	Credentials  *sluice.Credentials `json:"credentials,omitempty"`

	Untold []sluice.Announcement `json:"untold,omitempty"` // the last one has no revision: it is about the revision of this record
	Gone   bool                  `json:"gone,omitempty"`   // the subscription is deleted, and its announcements are not published yet
}

// Transformed returns a copy with f applied to every sealed part. The seal of a header also covers
// the URL of the endpoint: a writer that cannot open the records cannot have the header sent
// elsewhere.
func (r subscriptionRecord) Transformed(id string, f Transform) (_ subscriptionRecord, err error) {
	r.Secrets = slices.Clone(r.Secrets)
	for i := range r.Secrets {
		if r.Secrets[i].Value, err = f(r.Secrets[i].Value, seal.Place(streams.Subscriptions, id, "secret")); err != nil {
			return r, err
		}
	}
	endpoint := &r.Subscription.Endpoint
	address := endpoint.URL
	if address != "" { // empty for a deleted subscription
		if endpoint.URL, err = f(address, seal.Place(streams.Subscriptions, id, "url")); err != nil {
			return r, err
		}
	}
	if seal.KeyOf(address) != "" {
		address = endpoint.URL // it is opened now
	}
	endpoint.Headers = maps.Clone(endpoint.Headers)
	for name, value := range endpoint.Headers {
		if endpoint.Headers[name], err = f(value, seal.Place(streams.Subscriptions, id, "header", name, address)); err != nil {
			return r, err
		}
	}
	if r.Credentials == nil {
		return r, nil
	}
	r.Credentials, err = transformCredentials(*r.Credentials, id, endpoint.Auth, address, f)
	return r, err
}

// transformCredentials is Transformed for the credentials of an endpoint. The seal of the client
// secret also covers the token URL and the URL of the endpoint.
func transformCredentials(c sluice.Credentials, id string, auth *sluice.EndpointAuth, address string, f Transform) (_ *sluice.Credentials, err error) {
	tokenURL := ""
	if auth != nil {
		tokenURL = auth.TokenURL
	}
	if c.ClientSecret != "" {
		if c.ClientSecret, err = f(c.ClientSecret, seal.Place(streams.Subscriptions, id, "client_secret", tokenURL, address)); err != nil {
			return nil, err
		}
	}
	if c.PrivateKey != "" {
		if c.PrivateKey, err = f(c.PrivateKey, seal.Place(streams.Subscriptions, id, "private_key")); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

func (r *subscriptionRecord) subscription(revision uint64) *sluice.Subscription {
	sub := r.Subscription
	sub.From, sub.Secrets, sub.Revision = r.From, r.Secrets, revision
	sub.Untold = ofRevision(r.Untold, revision)
	if r.Credentials != nil {
		sub.Credentials = *r.Credentials
	}
	return &sub
}

// locked returns the subscription without its sealed parts.
func (r *subscriptionRecord) locked(revision uint64) *sluice.Subscription {
	sub := r.subscription(revision)
	sub.Secrets, sub.Endpoint.Headers, sub.Credentials = nil, nil, sluice.Credentials{}
	if seal.KeyOf(sub.Endpoint.URL) != "" {
		sub.Endpoint.URL = ""
	}
	return sub
}

// Subscriptions stores the subscriptions by ID, with their secrets, their resolved starts and the
// announcements that are not published yet. The Revision of a subscription is always that of its
// record.
type Subscriptions struct{ bucket Bucket[subscriptionRecord] }

// Subscriptions returns the bucket of the subscriptions.
func (s *Store) Subscriptions() Subscriptions {
	return Subscriptions{OpenBucket[subscriptionRecord](s, streams.Subscriptions)}
}

// Get returns the subscription and its revision. Codes: NotFound if there is none; Unavailable if
// its secrets cannot be opened.
func (s Subscriptions) Get(ctx context.Context, id string) (*sluice.Subscription, uint64, error) {
	record, revision, err := s.bucket.Get(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if record.Gone {
		return nil, 0, sluice.Errorf(sluice.NotFound, "%q not found in %s", id, s.bucket.name)
	}
	record, err = record.Transformed(id, s.bucket.store.openText)
	if err = unlocked(id, err); err != nil {
		return nil, 0, err
	}
	return record.subscription(revision), revision, nil
}

// Put stores the subscription and returns its new revision. Code Conflict unless the stored
// revision is the given one; 0 means that nothing is stored. The unpublished announcements of the
// subscription are stored with it; those without a revision get the new one. Codes Unavailable if
// there are too many; SubscriptionDiffers if a mirror has the ID.
func (s Subscriptions) Put(ctx context.Context, id string, sub *sluice.Subscription, revision uint64) (uint64, error) {
	record := subscriptionRecord{Subscription: *sub, From: sub.From, Secrets: sub.Secrets, Untold: sub.Untold}
	record.Subscription.Revision, record.Subscription.Endpoint.Secret = 0, ""
	if sub.Credentials != (sluice.Credentials{}) {
		record.Credentials = &sub.Credentials
	}
	record, err := record.Transformed(id, s.bucket.store.sealText)
	if err != nil {
		return 0, err
	}
	var stored uint64
	if revision == 0 {
		stored, err = s.bucket.PutExclusive(ctx, streams.Mirrors, id, func() (uint64, error) { return s.create(ctx, id, &record) })
	} else {
		stored, err = s.put(ctx, id, &record, revision)
	}
	if err != nil {
		return 0, err
	}
	sub.Untold = ofRevision(record.Untold, stored)
	return stored, nil
}

// RequireUnused returns an error (SubscriptionDiffers) if a mirror has the ID.
func (s Subscriptions) RequireUnused(ctx context.Context, id string) error {
	return s.bucket.store.requireUnused(ctx, streams.Mirrors, id)
}

// create stores a new record, also in place of a deleted one.
func (s Subscriptions) create(ctx context.Context, id string, record *subscriptionRecord) (uint64, error) {
	stored, err := s.put(ctx, id, record, 0)
	if sluice.CodeOf(err) == sluice.Conflict {
		return s.replace(ctx, id, record, err)
	}
	return stored, err
}

// put stores a record without the announcements that were already published.
func (s Subscriptions) put(ctx context.Context, id string, record *subscriptionRecord, revision uint64) (uint64, error) {
	var err error
	if record.Untold, err = s.untold(ctx, id, record.Untold); err != nil {
		return 0, err
	}
	if len(record.Untold) > maxUntold {
		return 0, sluice.Errorf(sluice.Unavailable,
			"nothing was changed: %d changes of %q have unpublished system events, because the log of its namespace is not writable", maxUntold, id)
	}
	return s.bucket.Put(ctx, id, *record, revision)
}

// replace stores a new subscription in place of a deleted one with unpublished announcements. It
// returns the conflict if the stored one is not deleted.
func (s Subscriptions) replace(ctx context.Context, id string, record *subscriptionRecord, conflict error) (uint64, error) {
	gone, revision, err := s.bucket.Get(ctx, id)
	if err != nil || !gone.Gone {
		return 0, cmp.Or(err, conflict)
	}
	record.Untold = append(ofNamespace(ofRevision(gone.Untold, revision), gone.Subscription.Namespace), record.Untold...)
	return s.put(ctx, id, record, revision)
}

// Retire stores that the subscription is deleted, with its announcements: from then on only Waiting
// and Untold return it. It sets sub.Revision. Code Conflict unless the stored revision is
// sub.Revision.
func (s Subscriptions) Retire(ctx context.Context, sub *sluice.Subscription) error {
	record := subscriptionRecord{Gone: true, Untold: sub.Untold, Subscription: sluice.Subscription{
		ID: sub.ID, Namespace: sub.Namespace, Pattern: sub.Pattern, Lifecycle: sluice.Lifecycle{State: sub.State, Reason: sub.Reason, CreatedAt: sub.CreatedAt},
	}}
	stored, err := s.put(ctx, sub.ID, &record, sub.Revision)
	if err != nil {
		return err
	}
	sub.Revision, sub.Untold = stored, ofRevision(record.Untold, stored)
	return nil
}

// Delete deletes the record of the subscription. Code Conflict unless the stored revision is the
// given one.
func (s Subscriptions) Delete(ctx context.Context, id string, revision uint64) error {
	return s.bucket.Delete(ctx, id, revision)
}

// List returns all subscriptions, in the order of their last change. If the secrets of a
// subscription cannot be opened, List logs that and returns it without them.
func (s Subscriptions) List(ctx context.Context) ([]*sluice.Subscription, error) {
	entries, err := s.bucket.List(ctx, ">")
	if err != nil {
		return nil, err
	}
	all := make([]*sluice.Subscription, 0, len(entries))
	for _, e := range entries {
		if !e.Value.Gone {
			sub, _ := s.open(ctx, e)
			all = append(all, sub)
		}
	}
	return all, nil
}

// Watch calls f for all subscriptions and their changes, like Bucket.Watch. The value of a removal
// is nil. If the secrets of a subscription cannot be opened, Watch logs that and passes it as
// paused: without secrets its deliveries cannot be signed, and a watcher that treats it as removed
// would forget its parked lanes.
func (s Subscriptions) Watch(ctx context.Context, f func(Entry[*sluice.Subscription])) error {
	return s.bucket.Watch(ctx, ">", func(e Entry[subscriptionRecord]) {
		told := Entry[*sluice.Subscription]{Key: e.Key, Revision: e.Revision, Change: e.Change, Unreadable: e.Unreadable}
		if e.Value.Gone {
			told.Change = Removed
		}
		if told.Change == Set {
			var ok bool
			if told.Value, ok = s.open(ctx, e); !ok && told.Value.State == sluice.Active {
				told.Value.State = sluice.Paused
			}
			told.Value.Untold = nil // watchers do not publish announcements, and keep all subscriptions in memory
		}
		f(told)
	})
}

// open returns the subscription in a record, and whether its secrets could be opened.
func (s Subscriptions) open(ctx context.Context, e Entry[subscriptionRecord]) (*sluice.Subscription, bool) {
	record, err := e.Value.Transformed(e.Key, s.bucket.store.openText)
	if err != nil {
		s.bucket.logLocked(ctx, e.Key, err)
		return e.Value.locked(e.Revision), false
	}
	return record.subscription(e.Revision), true
}
