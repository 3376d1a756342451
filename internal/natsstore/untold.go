package natsstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// maxUntold is the maximum number of unpublished announcements of a subscription or a namespace. If
// they cannot be published, it cannot be changed any more once the limit is reached.
const maxUntold = 100

// toldRecord is the mark with the announcement of a subscription, or of a namespace, that was
// published last.
type toldRecord struct {
	Event    string `json:"event"`    // its ID; "" for a namespace
	Revision uint64 `json:"revision"` // that it was about
}

// later returns the announcements after the one that was published last.
func (t toldRecord) later(all []sluice.Announcement) []sluice.Announcement {
	if at := slices.IndexFunc(all, func(a sluice.Announcement) bool { return a.ID == t.Event }); at >= 0 {
		return all[at+1:]
	}
	return behind(all, t.Revision)
}

// behind returns the announcements of revisions after the given one, and those without a revision.
func behind(all []sluice.Announcement, revision uint64) []sluice.Announcement {
	for len(all) > 0 && all[0].Revision != 0 && all[0].Revision <= revision {
		all = all[1:]
	}
	return all
}

// ofRevision returns a copy in which announcements without a revision have the given one.
func ofRevision(all []sluice.Announcement, revision uint64) []sluice.Announcement {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Revision == 0 {
			all[i].Revision = revision
		}
	}
	return all
}

// ofNamespace sets the namespace of announcements without one.
func ofNamespace(all []sluice.Announcement, namespace string) []sluice.Announcement {
	for i := range all {
		all[i].Namespace = cmp.Or(all[i].Namespace, namespace)
	}
	return all
}

func (s Subscriptions) marks() Bucket[toldRecord] { return s.bucket.store.toldMarks() }

// untold returns the announcements of a subscription that are not marked as published.
func (s Subscriptions) untold(ctx context.Context, id string, all []sluice.Announcement) ([]sluice.Announcement, error) {
	if len(all) == 0 || all[0].Revision == 0 { // only the new one
		return all, nil
	}
	mark, _, err := s.marks().Get(ctx, id)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return nil, err
	}
	return mark.later(all), nil
}

// Untold returns a subscription with its unpublished announcements, and with only its ID, namespace
// and revision. The subscription may be deleted. Code NotFound if there is no unpublished
// announcement.
func (s Subscriptions) Untold(ctx context.Context, id string) (*sluice.Subscription, error) {
	record, revision, err := s.bucket.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	left, err := s.untold(ctx, id, ofRevision(record.Untold, revision))
	if err != nil {
		return nil, err
	}
	if len(left) == 0 {
		return nil, sluice.Errorf(sluice.NotFound, "no unpublished system events of %q", id)
	}
	return waiting(&record, revision, left), nil
}

func waiting(r *subscriptionRecord, revision uint64, left []sluice.Announcement) *sluice.Subscription {
	return &sluice.Subscription{ID: r.Subscription.ID, Namespace: r.Subscription.Namespace, Lifecycle: sluice.Lifecycle{Revision: revision}, Untold: left}
}

// Outbox finds the unpublished announcements for one process.
type Outbox struct {
	Subscriptions

	mu             sync.Mutex
	records, marks uint64 // revisions up to which the records and the marks were read
}

// Outbox returns the outbox of this process.
func (s *Store) Outbox() *Outbox { return &Outbox{Subscriptions: s.Subscriptions()} }

// Waiting returns the subscriptions with unpublished announcements, each like Untold: the first
// call returns all, further calls those that changed since the previous call.
func (o *Outbox) Waiting(ctx context.Context) ([]*sluice.Subscription, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.records == 0
	marks, err := o.Subscriptions.marks().ListSince(ctx, ">", o.marks) // before the records: a later change has a later mark
	if err != nil {
		return nil, err
	}
	records, err := o.bucket.ListSince(ctx, ">", o.records)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]Entry[toldRecord], len(marks))
	for _, m := range marks {
		byID[m.Key] = m
	}
	var all []*sluice.Subscription
	for _, e := range records {
		if left := byID[e.Key].Value.later(ofRevision(e.Value.Untold, e.Revision)); len(left) > 0 {
			all = append(all, waiting(&e.Value, e.Revision, left))
		}
		delete(byID, e.Key)
	}
	if first {
		err = o.sweep(ctx, byID)
	}
	if err == nil {
		o.records, o.marks = lastRevision(records, o.records), lastRevision(marks, o.marks)
	}
	return all, err
}

// sweep deletes marks without a record, which a crash has left. The marks were read before the
// records.
func (o *Outbox) sweep(ctx context.Context, orphans map[string]Entry[toldRecord]) error {
	for id, m := range orphans {
		if strings.HasPrefix(id, streams.ToldNamespaceKey("")) {
			continue
		}
		if err := o.Subscriptions.marks().Delete(ctx, id, m.Revision); err != nil && sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return nil
}

// lastRevision returns the highest revision of the entries, or least if that is higher.
func lastRevision[T any](all []Entry[T], least uint64) uint64 {
	for _, e := range all {
		least = max(least, e.Revision)
	}
	return least
}

// Told stores a mark that the announcements of the subscription were published. If the last one
// announces its deletion, Told deletes the record and the mark.
func (s Subscriptions) Told(ctx context.Context, sub *sluice.Subscription) error {
	last := sub.Untold[len(sub.Untold)-1]
	if last.Type == sluice.TypeSubscriptionDeleted {
		err := s.bucket.Delete(ctx, sub.ID, sub.Revision)
		if err == nil {
			return s.marks().Delete(ctx, sub.ID, 0)
		}
		if sluice.CodeOf(err) != sluice.Conflict { // on a conflict there is a new subscription, which may have the same announcements
			return err
		}
	}
	return s.mark(ctx, sub.ID, last)
}

// mark stores that an announcement was published, unless a later one is marked.
func (s Subscriptions) mark(ctx context.Context, id string, last sluice.Announcement) error {
	told := toldRecord{Event: last.ID, Revision: last.Revision}
	if last.Type == sluice.TypeSubscriptionCreated { // most have no mark yet
		if _, err := s.marks().Put(ctx, id, told, 0); sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	for {
		mark, revision, err := s.marks().Get(ctx, id)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		if mark.Revision >= last.Revision {
			return nil
		}
		_, err = s.marks().Put(ctx, id, told, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}
