package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Access stores the records of permissions.
type Access struct {
	natsstore.Bucket[authz.Record]

	Damaged map[string]sluice.Damage // damaged records, by key
}

// NewAccess returns the records of permissions.
func NewAccess(store *natsstore.Store, damaged map[string]sluice.Damage) Access {
	return Access{natsstore.OpenBucket[authz.Record](store, streams.Access), damaged}
}

// FollowTo passes every record, and then every change, to a follower until ctx is done. A damaged
// record gives no permission. For a damaged key without a readable record, it passes an unreadable
// one before the follower has caught up.
func (a Access) FollowTo(ctx context.Context, follower *grants.Follower) error {
	told := map[string]bool{}
	return a.Watch(ctx, ">", changes[authz.Record]{
		set: func(e natsstore.Entry[authz.Record]) {
			told[e.Key] = true
			follower.Set(ctx, e.Key, a.trusted(e), e.Revision)
		},
		removed: follower.Remove,
		caughtUp: func() {
			for key, d := range a.Damaged {
				if !told[key] { // the record is lost or unreadable
					follower.Set(ctx, key, authz.Record{Unreadable: true}, d.From)
				}
			}
			follower.CaughtUp()
		},
	}.handle)
}

// trusted returns an access record, or one without any permission if the record is older than the
// last stored one. Records stored after the damage are valid.
func (a Access) trusted(e natsstore.Entry[authz.Record]) authz.Record {
	if d, ok := a.Damaged[e.Key]; ok && e.Revision <= d.To {
		return authz.Record{Unreadable: true}
	}
	return e.Value
}

// PortalLinks stores the links to the portal.
type PortalLinks struct {
	natsstore.Bucket[grants.PortalLink]
}

// NewPortalLinks returns the links to the portal.
func NewPortalLinks(store *natsstore.Store) PortalLinks {
	return PortalLinks{natsstore.OpenBucket[grants.PortalLink](store, streams.PortalLinks)}
}

// All returns the links whose keys match a filter. The filter <principal>.* reads only those of a
// principal.
func (l PortalLinks) All(ctx context.Context, filter string) ([]grants.PortalLink, error) {
	entries, err := l.List(ctx, filter)
	links := make([]grants.PortalLink, len(entries))
	for i, e := range entries {
		links[i] = e.Value
	}
	return links, err
}

// TokenKeys returns a function for the keys that sign tokens. The function reads the keys on every
// call.
func TokenKeys(store *natsstore.Store) func(ctx context.Context) ([]grants.Key, error) {
	return func(ctx context.Context) ([]grants.Key, error) {
		stored, err := store.Keys().For(ctx, sluice.UseGrant)
		if err != nil {
			return nil, err
		}
		keys := make([]grants.Key, len(stored))
		for i, k := range stored {
			keys[i] = grants.Key{ID: k.ID, Private: k.Private()}
		}
		return keys, nil
	}
}
