// Package namespacecmd has the commands about namespaces and the event types in their catalogues.
package namespacecmd
