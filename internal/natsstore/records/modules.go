package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/streams"
)

// Modules stores the approvals of modules.
type Modules struct {
	natsstore.Bucket[host.Approval]
}

var _ host.Approvals = Modules{}

// NewModules returns the approvals of modules.
func NewModules(store *natsstore.Store) Modules {
	return Modules{natsstore.OpenBucket[host.Approval](store, streams.Modules)}
}

// Watch calls change for every approval, and then for every change; nil: it was removed.
func (m Modules) Watch(ctx context.Context, change func(name string, a *host.Approval)) error {
	return m.Bucket.Watch(ctx, ">", changes[host.Approval]{
		set: func(e natsstore.Entry[host.Approval]) {
			e.Value.Revision = e.Revision
			change(e.Key, &e.Value)
		},
		removed: func(key string, _ uint64) { change(key, nil) },
	}.handle)
}
