package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
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

// Watch calls change for every approval, and then for every change, with nil for a deleted one.
func (m Modules) Watch(ctx context.Context, change func(name string, a *host.Approval)) error {
	return m.Bucket.Watch(ctx, ">", changes[host.Approval]{
		set: func(e natsstore.Entry[host.Approval]) {
			e.Value.Revision = e.Revision
			change(e.Key, &e.Value)
		},
		removed: func(key string, _ uint64) { change(key, nil) },
	}.handle)
}

// ModuleLog looks up the events that programs of modules have published.
type ModuleLog struct {
	ActionLog

	watch WatchLog
}

var _ host.Log = ModuleLog{}

// NewModuleLog returns the lookups in the logs.
func NewModuleLog(log *eventlog.Log, store *natsstore.Store) ModuleLog {
	return ModuleLog{ActionLog{Log: log, Store: store}, NewWatchLog(log)}
}

// Has reports whether an event that is wanted is on a path after a sequence.
func (l ModuleLog) Has(ctx context.Context, namespace string, path sluice.Path, after uint64, wanted func(*sluice.Event) bool) (bool, error) {
	return l.watch.Has(ctx, namespace, path, after, wanted)
}
