package natsstore

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// NamespaceRevisions returns the revisions of the namespaces, and of those of which something was told, or is to be told
// that they were made (0), the revision that was told last; both by name.
func (s *Store) NamespaceRevisions(ctx context.Context) (is, told map[string]uint64, err error) {
	marks, err := s.toldMarks().List(ctx, streams.ToldNamespaceKey("*"))
	if err != nil {
		return nil, nil, err
	}
	records, err := s.namespaces().List(ctx, ">")
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

// NamespaceTold notes which revision of a namespace was told; 0 says that it is about to be made. What was noted of a later one
// stays.
func (s *Store) NamespaceTold(ctx context.Context, name string, told uint64) error {
	key := streams.ToldNamespaceKey(name)
	for {
		mark, revision, err := s.toldMarks().Get(ctx, key)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		if revision > 0 && mark.Revision >= told {
			return nil
		}
		_, err = s.toldMarks().Put(ctx, key, toldRecord{Revision: told}, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// NamespaceForgotten removes what was noted: it is told that the namespace is gone.
func (s *Store) NamespaceForgotten(ctx context.Context, name string) error {
	return s.toldMarks().Delete(ctx, streams.ToldNamespaceKey(name), 0)
}

func (s *Store) toldMarks() Bucket[toldRecord] { return OpenBucket[toldRecord](s, streams.Told) }
