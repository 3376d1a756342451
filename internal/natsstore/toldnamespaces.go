package natsstore

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// namespaceRecord is a namespace in the store, with the announcements that are still to be told; other readers read the namespace alone.
type namespaceRecord struct {
	sluice.Namespace

	Untold []sluice.Announcement `json:"untold,omitempty"`
}

func (s *Store) namespaceRecords() Bucket[namespaceRecord] {
	return OpenBucket[namespaceRecord](s, streams.Namespaces)
}

// replace stores a namespace in the place of the old one, with the announcement of the change, and returns its revision.
func (n Namespaces) replace(ctx context.Context, was *namespaceRecord, is *sluice.Namespace, revision uint64, told sluice.Announcement) (uint64, error) {
	untold, err := n.untoldOf(ctx, is.Name, ofRevision(was.Untold, revision), told)
	if err != nil {
		return 0, err
	}
	return n.store.namespaceRecords().Put(ctx, is.Name, namespaceRecord{Namespace: *is, Untold: untold}, revision)
}

// untoldOf returns the announcements of a namespace after a change: those of earlier changes that are not told yet, and this one.
func (n Namespaces) untoldOf(ctx context.Context, name string, before []sluice.Announcement, one sluice.Announcement) ([]sluice.Announcement, error) {
	left, err := n.leftOf(ctx, name, before)
	switch {
	case err != nil || one.Type == "":
		return left, err
	case len(left) >= maxUntold:
		return nil, sluice.Errorf(sluice.Unavailable, "%d system events of namespace %s are not published yet; retry", len(left), name)
	}
	return append(left, one), nil
}

// leftOf returns which of a namespace's announcements are not known to be told.
func (n Namespaces) leftOf(ctx context.Context, name string, all []sluice.Announcement) ([]sluice.Announcement, error) {
	if len(all) == 0 {
		return nil, nil
	}
	mark, _, err := n.store.toldMarks().Get(ctx, streams.ToldNamespaceKey(name))
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return nil, err
	}
	return behind(all, mark.Revision), nil
}

// Untold returns the announcements of a namespace that are still to be told, oldest first; none if there is no such namespace.
func (n Namespaces) Untold(ctx context.Context, name string) ([]sluice.Announcement, error) {
	record, revision, err := n.store.namespaceRecords().Get(ctx, name)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return n.leftOf(ctx, name, ofRevision(record.Untold, revision))
}

// Revisions returns the revisions of the namespaces, and for each namespace with an announcement the
// revision that was told last, 0 if that it was made is still to be told; both by name.
func (n Namespaces) Revisions(ctx context.Context) (is, told map[string]uint64, err error) {
	marks, err := n.store.toldMarks().List(ctx, streams.ToldNamespaceKey("*"))
	if err != nil {
		return nil, nil, err
	}
	records, err := n.store.namespaces().List(ctx, ">")
	if err != nil {
		return nil, nil, err
	}
	is, told = map[string]uint64{}, map[string]uint64{}
	for _, r := range records {
		is[r.Key] = r.Revision
	}
	for _, m := range marks {
		told[strings.TrimPrefix(m.Key, streams.ToldNamespaceKey(""))] = m.Value.Revision
	}
	return is, told, nil
}

// Told notes the revision of a namespace that was told; 0 says that the namespace is about to be made. The note of a later
// revision stays.
func (n Namespaces) Told(ctx context.Context, name string, told uint64) error {
	key := streams.ToldNamespaceKey(name)
	for {
		mark, revision, err := n.store.toldMarks().Get(ctx, key)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		if revision > 0 && mark.Revision >= told {
			return nil
		}
		_, err = n.store.toldMarks().Put(ctx, key, toldRecord{Revision: told}, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// Forgotten removes the note: it is told that the namespace is gone.
func (n Namespaces) Forgotten(ctx context.Context, name string) error {
	return n.store.toldMarks().Delete(ctx, streams.ToldNamespaceKey(name), 0)
}

func (s *Store) toldMarks() Bucket[toldRecord] { return OpenBucket[toldRecord](s, streams.Told) }
