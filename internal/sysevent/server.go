package sysevent

import (
	"context"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// serverData is the data of the events about a server.
type serverData struct {
	Replica string `json:"replica"`
	Version string `json:"version"`
}

// Server publishes that a server has started or ends (S4-34), in the default namespace. It takes
// two seconds at most; a failure is logged.
func (a *Announcer) Server(ctx context.Context, kind, replica, version string) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), changeLimit)
	defer cancel()
	a.publish(ctx, announcement{
		namespace: sluice.DefaultNamespace, path: sluice.ServerPath(replica), kind: kind, data: serverData{replica, version},
	})
}

// Damaged announces damage found in the store, in the namespace of the damaged log; in the default
// namespace if it is no log, or the log is missing. The data is the damage as GET /v1/storage shows
// it. It takes two seconds at most; a failure is logged.
func (a *Announcer) Damaged(ctx context.Context, d sluice.Damage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	ns := d.Namespace
	if ns == "" || d.Kind == sluice.DamageMissing {
		ns = sluice.DefaultNamespace
	}
	a.publish(ctx, announcement{namespace: ns, path: sluice.StoragePath, kind: sluice.TypeStorageDamaged, at: d.FoundAt, data: d})
}
