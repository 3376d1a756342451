package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Catalogue is an index of event types. Implementations are safe for concurrent use, and ignore a
// removal that is older than they know.
type Catalogue interface {
	All() []sluice.EventType
	SetNamespace(ns sluice.Namespace)
	SetType(t sluice.EventType)
	RemoveType(namespace, name string, revision uint64)
}

// LoadCatalogue reads all catalogues before anything is published or delivered: until then a strict
// namespace would count as open. After an error, the index is unchanged.
func LoadCatalogue(ctx context.Context, store *natsstore.Store, index Catalogue) error {
	all, err := store.Namespaces().List(ctx)
	if err != nil {
		return err
	}
	types, err := store.EventTypes().List(ctx, ">")
	if err != nil {
		return err
	}
	for _, ns := range all {
		index.SetNamespace(ns)
	}
	for _, e := range types {
		e.Value.Revision = e.Revision
		index.SetType(e.Value)
	}
	return nil
}

// FollowTypes keeps the index of event types current until ctx is done. Types that were deleted
// between LoadCatalogue and its start are found when it has caught up.
func FollowTypes(ctx context.Context, store *natsstore.Store, index Catalogue) error {
	loaded := index.All()
	known := map[string]sluice.EventType{}
	return store.EventTypes().Watch(ctx, ">", changes[sluice.EventType]{
		set: func(e natsstore.Entry[sluice.EventType]) {
			e.Value.Revision = e.Revision
			known[e.Key] = sluice.EventType{Namespace: e.Value.Namespace, Type: e.Value.Type}
			index.SetType(e.Value)
		},
		removed: func(key string, revision uint64) {
			t := known[key]
			delete(known, key)
			index.RemoveType(t.Namespace, t.Type, revision)
		},
		caughtUp: func() {
			for _, t := range loaded { // deleted before the watch started
				if _, stays := known[streams.EventTypeKey(t.Namespace, t.Type)]; !stays {
					index.RemoveType(t.Namespace, t.Type, t.Revision)
				}
			}
			loaded = nil
		},
	}.handle)
}

// FollowNamespaces passes every namespace, and then every change, to set and removed until ctx is
// done.
func FollowNamespaces(ctx context.Context, store *natsstore.Store, set func(sluice.Namespace), removed func(name string, revision uint64)) error {
	return store.Namespaces().Watch(ctx, changes[sluice.Namespace]{
		set:     func(e natsstore.Entry[sluice.Namespace]) { set(e.Value) },
		removed: removed,
	}.handle)
}
