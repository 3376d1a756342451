package namespace

import (
	"context"
	"encoding/json"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Store keeps namespaces.
type Store interface {
	// PutAfter stores a namespace with the announcement that before returns. Was is nil for a new
	// namespace. The result reports whether the namespace is new.
	PutAfter(ctx context.Context, ns sluice.Namespace, before func(was, next *sluice.Namespace) (sluice.Announcement, error)) (sluice.Namespace, bool, error)
	Get(ctx context.Context, name string) (sluice.Namespace, error)
	List(ctx context.Context) ([]sluice.Namespace, error)
	// Delete deletes the log. Codes NotFound; Conflict for the default namespace.
	Delete(ctx context.Context, name string) error
	// Told records the last published revision; 0 if none is.
	Told(ctx context.Context, name string, revision uint64) error
	DeleteEventTypes(ctx context.Context, namespace string) error
	DeleteInstructions(ctx context.Context, namespace string) error
}

// Scheduled keeps scheduled events.
type Scheduled interface {
	DeleteOf(ctx context.Context, namespace string) error
}

// Authority changes permissions.
type Authority interface {
	// Label returns the label of a namespace that is in force; the zero value if none was set.
	Label(namespace string) sluice.Label
	PutLabel(ctx context.Context, by sluice.Caller, namespace string, label sluice.Label) error
	// EndGrants revokes the grants of a namespace.
	EndGrants(ctx context.Context, by sluice.Caller, namespace string) error
	// ForgetNamespace removes the permissions of a namespace.
	ForgetNamespace(ctx context.Context, by sluice.Caller, namespace string) error
}

// Subscriptions deletes the webhook and wake subscriptions of a namespace.
type Subscriptions interface {
	DeleteAll(ctx context.Context, namespace, by string) error
}

// StreamSubscriptions deletes the Durable Streams subscriptions of a namespace.
type StreamSubscriptions interface {
	Forget(ctx context.Context, namespace string, by sluice.Principal) error
}

// Mirrors deletes the mirrors of a namespace.
type Mirrors interface {
	DeleteAll(ctx context.Context, namespace, by string) error
}

// Enrichment deletes the enrichment of a namespace, with its results.
type Enrichment interface {
	DeleteAll(ctx context.Context, namespace, by string) error
}

// Announcer publishes system events.
type Announcer interface {
	Namespace(ctx context.Context, kind string, ns *sluice.Namespace, old, now json.RawMessage)
	// StillUntold publishes the announcements of a namespace that are stored with it.
	StillUntold(ctx context.Context, name string)
}

// Quotas enforces the quotas of namespaces.
type Quotas interface {
	Set(ns sluice.Namespace)
	Remove(name string)
}

// Catalogue has the event types of namespaces.
type Catalogue interface {
	SetNamespace(ns sluice.Namespace)
	RemoveNamespace(name string, revision uint64)
}

// Streams caches the state of streams.
type Streams interface {
	Forget(namespace string)
}
