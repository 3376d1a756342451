package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Enrichments stores the configurations of enrichments.
type Enrichments struct {
	natsstore.Bucket[knowledge.Stored]
}

var _ knowledge.Definitions = Enrichments{}

// NewEnrichments returns the configurations of enrichments.
func NewEnrichments(store *natsstore.Store) Enrichments {
	return Enrichments{natsstore.OpenBucket[knowledge.Stored](store, streams.Enrichments)}
}

// Watch calls change for every configuration, and then for every change.
func (e Enrichments) Watch(ctx context.Context, change func(namespace string, c *knowledge.Stored)) error {
	return e.Bucket.Watch(ctx, ">", changes[knowledge.Stored]{
		set: func(e natsstore.Entry[knowledge.Stored]) {
			e.Value.Revision = e.Revision
			change(e.Key, &e.Value)
		},
		removed: func(key string, _ uint64) { change(key, nil) },
	}.handle)
}

// KnowledgeLog gives enrichment access to the log.
type KnowledgeLog struct{ EventLog }

var _ knowledge.Log = KnowledgeLog{}

// FollowChanges calls each when it starts, and then for every message that is stored.
func (l KnowledgeLog) FollowChanges(ctx context.Context, namespace string, each func()) error {
	return l.Log.FollowChanges(ctx, namespace, each)
}

// KnowledgeMirrors gives enrichment access to mirrors.
type KnowledgeMirrors struct {
	Mirrors Mirrors
	Copies  *mirrorstore.Store
}

var _ knowledge.Mirrors = KnowledgeMirrors{}

// Watch calls change for every mirror, then once with an empty ID and nil, then for every change.
func (k KnowledgeMirrors) Watch(ctx context.Context, change func(id string, m *sluice.Mirror)) error {
	return k.Mirrors.Bucket.Watch(ctx, ">", changes[mirror.Stored]{
		set: func(e natsstore.Entry[mirror.Stored]) {
			if e.Value.Gone {
				change(e.Key, nil)
				return
			}
			change(e.Key, &e.Value.Mirror)
		},
		removed:  func(key string, _ uint64) { change(key, nil) },
		caughtUp: func() { change("", nil) },
	}.handle)
}

// Follow calls each for every entry of a mirror, then caughtUp once, then each for every change.
func (k KnowledgeMirrors) Follow(ctx context.Context, id string, each func(*knowledge.MirrorEntry), caughtUp func()) error {
	return k.Copies.Follow(ctx, id, func(e mirror.Entry) {
		is := knownEntry(&e)
		each(&is)
	}, caughtUp)
}

// Entries returns entries of a mirror by their IDs.
func (k KnowledgeMirrors) Entries(ctx context.Context, id string, entries []string) (map[string]knowledge.MirrorEntry, error) {
	stored, err := k.Copies.Entries(ctx, id, entries)
	all := make(map[string]knowledge.MirrorEntry, len(stored))
	for key, e := range stored {
		all[key] = knownEntry(&e)
	}
	return all, err
}

func knownEntry(e *mirror.Entry) knowledge.MirrorEntry {
	return knowledge.MirrorEntry{Change: e.Change, Tombstone: e.Tombstone(), MirroredAt: e.MirroredAt, Cursor: e.Cursor}
}
