package natsstore

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// namespaceRecord is a stored namespace with the announcements that are not published yet. Other
// readers decode only the namespace.
type namespaceRecord struct {
	sluice.Namespace

	Untold []sluice.Announcement `json:"untold,omitempty"`
}

func (s *Store) namespaceRecords() Bucket[namespaceRecord] {
	return OpenBucket[namespaceRecord](s, streams.Namespaces)
}

// replace stores a namespace in place of the old one, with the announcement of the change, and
// returns the new revision.
func (n Namespaces) replace(ctx context.Context, was *namespaceRecord, is *sluice.Namespace, revision uint64, told sluice.Announcement) (uint64, error) {
	untold, err := n.untoldOf(ctx, is.Name, ofRevision(was.Untold, revision), told)
	if err != nil {
		return 0, err
	}
	return n.store.namespaceRecords().Put(ctx, is.Name, namespaceRecord{Namespace: *is, Untold: untold}, revision)
}

// untoldOf returns the unpublished announcements of a namespace after a change: those of earlier
// changes, and one.
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

// leftOf returns the announcements of a namespace that are not marked as published.
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

// Untold returns the unpublished announcements of a namespace, oldest first; none if there is no
// such namespace.
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

// Revisions returns the revisions of the namespaces, and the revisions whose announcements were
// published last, 0 if the creation is not announced yet; both by name. A namespace without a mark
// is not in the second map.
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

// Told stores a mark that the announcement of a revision of a namespace was published; 0 means that
// the namespace is about to be created. It does not replace the mark of a later revision.
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

// Forgotten deletes the mark, after the deletion of the namespace was announced.
func (n Namespaces) Forgotten(ctx context.Context, name string) error {
	return n.store.toldMarks().Delete(ctx, streams.ToldNamespaceKey(name), 0)
}

func (s *Store) toldMarks() Bucket[toldRecord] { return OpenBucket[toldRecord](s, streams.Told) }
