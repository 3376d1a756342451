package natsstore

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// maxUntold bounds the announcements that wait for a subscription: if they can never be told, it cannot be changed for ever.
const maxUntold = 100

// toldRecord names the announcement of a subscription, or of a namespace, that was told last.
type toldRecord struct {
	Event    string `json:"event"`    // its id; "" of a namespace
	Revision uint64 `json:"revision"` // that it told of
}

// later returns the announcements that come after the last told one.
func (t toldRecord) later(all []sluice.Announcement) []sluice.Announcement {
	if at := slices.IndexFunc(all, func(a sluice.Announcement) bool { return a.ID == t.Event }); at >= 0 {
		return all[at+1:]
	}
	return behind(all, t.Revision)
}

// behind returns the announcements of later revisions, and of those that have none yet.
func behind(all []sluice.Announcement, revision uint64) []sluice.Announcement {
	for len(all) > 0 && all[0].Revision != 0 && all[0].Revision <= revision {
		all = all[1:]
	}
	return all
}

// ofRevision returns a copy in which the announcement without a revision has the record's.
func ofRevision(all []sluice.Announcement, revision uint64) []sluice.Announcement {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Revision == 0 {
			all[i].Revision = revision
		}
	}
	return all
}

func (s Subscriptions) marks() Bucket[toldRecord] { return s.bucket.store.toldMarks() }

// untold returns which of a subscription's announcements are not known to be told.
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

// Untold returns a subscription with announcements that are still to be told, and of it only the names, the revision and those
// announcements; the subscription itself may be gone. Code NotFound if there is no announcement.
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
	return &sluice.Subscription{ID: r.Subscription.ID, Namespace: r.Subscription.Namespace, Revision: revision, Untold: left}
}

// Outbox is the announcements of changes that are still to be told, for one process.
type Outbox struct {
	Subscriptions

	mu             sync.Mutex
	records, marks uint64 // the revisions up to which they were read
}

// Outbox returns the outbox of this process.
func (s *Store) Outbox() *Outbox { return &Outbox{Subscriptions: s.Subscriptions()} }

// Waiting returns the subscriptions with announcements that are still to be told, each as Untold does: at first all, from then
// on those that changed since the last call.
func (o *Outbox) Waiting(ctx context.Context) ([]*sluice.Subscription, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.records == 0
	marks, err := o.Subscriptions.marks().ListSince(ctx, ">", o.marks) // before the records: what was changed later has a later mark
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

// sweep deletes the marks that a crash left behind: they were read first, and had no record afterwards.
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

// lastRevision returns the highest revision of the entries, at least least.
func lastRevision[T any](all []Entry[T], least uint64) uint64 {
	for _, e := range all {
		least = max(least, e.Revision)
	}
	return least
}

// Told notes that the subscription's announcements were told. If the last says that it is gone, nothing is left of it.
func (s Subscriptions) Told(ctx context.Context, sub *sluice.Subscription) error {
	last := sub.Untold[len(sub.Untold)-1]
	if last.Type == sluice.TypeSubscriptionDeleted {
		err := s.bucket.Delete(ctx, sub.ID, sub.Revision)
		if err == nil {
			return s.marks().Delete(ctx, sub.ID, 0)
		}
		if sluice.CodeOf(err) != sluice.Conflict { // else there is a new one, which may have this to tell, too
			return err
		}
	}
	return s.mark(ctx, sub.ID, last)
}

// mark notes that an announcement was told, unless a later one was.
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
