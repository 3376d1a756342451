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

// Server publishes in the default namespace that a server has started or is stopping (S4-34). It
// takes at most two seconds; a failure is logged. It is not retried, and each call publishes an
// event of its own.
func (a *Announcer) Server(ctx context.Context, kind, replica, version string) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), changeLimit)
	defer cancel()
	a.publish(ctx, announcement{
		namespace: sluice.DefaultNamespace, path: sluice.ServerPath(replica), kind: kind, data: serverData{replica, version},
	})
}

// Damaged announces damage found in the store. It does so in the namespace of the damaged log, or
// in the default namespace if the damage is not in a log or the log is missing. The data is the
// damage as GET /v1/storage shows it. It takes at most two seconds; a failure is logged. It is not
// retried, and each call publishes an event of its own.
func (a *Announcer) Damaged(ctx context.Context, d sluice.Damage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	ns := d.Namespace
	if ns == "" || d.Kind == sluice.DamageMissing {
		ns = sluice.DefaultNamespace
	}
	a.publish(ctx, announcement{namespace: ns, path: sluice.StoragePath, kind: sluice.TypeStorageDamaged, at: d.FoundAt, data: d})
}
