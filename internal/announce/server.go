package announce

import (
	"context"
	"encoding/json"

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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	a.publish(ctx, announcement{
		namespace: sluice.DefaultNamespace, path: sluice.ServerPath(replica), kind: kind, data: serverData{replica, version},
	})
}

// namespaceData is the data of the events about a namespace.
type namespaceData struct {
	Name     string          `json:"name"`
	Revision uint64          `json:"revision"`
	Old      json.RawMessage `json:"old,omitempty"`
	New      json.RawMessage `json:"new,omitempty"`
}

// Namespace publishes what became of a namespace, with the fields that changed, in the default
// namespace, because its own log comes and goes with it. It takes two seconds at most; a failure is logged.
func (a *Announcer) Namespace(ctx context.Context, kind string, ns *sluice.Namespace, old, now json.RawMessage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	a.publish(ctx, announcement{
		namespace: sluice.DefaultNamespace, path: sluice.NamespacePath(ns.Name), kind: kind, data: namespaceData{ns.Name, ns.Revision, old, now},
	})
}
