package namespace

import "github.com/sluice-io/sluice/pkg/sluice"

// Follower passes the namespaces of the store to the components that keep their settings in memory.
type Follower struct {
	Quotas    Quotas
	Catalogue Catalogue
	Streams   Streams
}

// Set passes a namespace, new or changed.
func (f Follower) Set(ns sluice.Namespace) {
	f.Quotas.Set(ns)
	f.Catalogue.SetNamespace(ns)
}

// Remove passes the deletion of a namespace.
func (f Follower) Remove(name string, revision uint64) {
	f.Quotas.Remove(name)
	f.Catalogue.RemoveNamespace(name, revision)
	f.Streams.Forget(name)
}
