package sluice

import "net/url"

// SystemSource is the source of the events that the server publishes about itself.
const SystemSource = "/sluice"

// SystemEvent is what the server tells about itself.
type SystemEvent struct {
	Path Path
	ID   string
	Kind string
	Data any
}

// Types of the system events.
const (
	TypeSubscriptionCreated   = "subscription.created"
	TypeSubscriptionUpdated   = "subscription.updated"
	TypeSubscriptionPaused    = "subscription.paused"
	TypeSubscriptionResumed   = "subscription.resumed"
	TypeSubscriptionDisabled  = "subscription.disabled"
	TypeSubscriptionSuspended = "subscription.suspended"
	TypeSubscriptionCancelled = "subscription.cancelled"
	TypeAccessRevoked         = "subscription_cancelled_access_revoked" // in place of subscription.cancelled (S0-64)
	TypeSubscriptionDeleted   = "subscription.deleted"
	TypeSecretRotated         = "subscription.secret_rotated"
	TypeSubscriptionThrottled = "subscription.throttled"
	TypeSubscriptionFailing   = "subscription.failing"
	TypeDeliveryDead          = "delivery.dead"
	TypeServerStarted         = "sys.start"    // S4-34
	TypeServerStopping        = "sys.shutdown" // S4-34
	TypeStorageDamaged        = "sys.damage"   // something stored was found damaged or deleted
	TypeNamespaceCreated      = "namespace.created"
	TypeNamespaceUpdated      = "namespace.updated"
	TypeNamespaceDeleted      = "namespace.deleted"
	TypeDeliveryHeld          = "delivery.held"
	TypeProducerUnsafe        = "producer_unsafe"
	TypeScheduledFailed       = "scheduled.failed"    // an event was due and could not be published
	TypeScheduledCancelled    = "scheduled.cancelled" // somebody cancelled it before
	TypeEventTypeOrphaned     = "event_type.orphaned" // S2-47

	TypeAppointmentApproaching = "appointment.approaching" // S2-38
	TypeAppointmentFired       = "appointment.fired"       // S2-39
	TypeAppointmentMissed      = "appointment.missed"      // S2-40
	TypeAppointmentCancelled   = "appointment.cancelled"   // S2-41
)

// ReasonAccessRevoked is why a subscription was cancelled whose owner may have nothing of it any more.
const ReasonAccessRevoked = "access_revoked"

// StoragePath is where the system events about what is stored live.
const StoragePath Path = "/_sys/storage"

// ProducersPath is where the system events about producers live.
const ProducersPath Path = "/_sys/producers"

// ScheduledPath is where the system events about events live that were to be stored at a time.
const ScheduledPath Path = "/_sys/scheduled"

// SubscriptionPath returns where the system events about a subscription live.
func SubscriptionPath(id string) Path { return Path("/_sys/subscriptions/" + id) }

// DeliveriesPath returns where the system events about a subscription's deliveries live.
func DeliveriesPath(subscription string) Path { return Path("/_sys/deliveries/" + subscription) }

// ServerPath returns where the system events about a server live, in the default namespace.
func ServerPath(replica string) Path { return Path("/_sys/server/" + replica) }

// EventTypePath returns where the system events about an event type of a namespace live.
func EventTypePath(eventType string) Path {
	return Path("/_sys/event-types/" + url.PathEscape(eventType))
}

// NamespacePath returns where the system events about a namespace live, in the default
// namespace: its own log comes and goes with it.
func NamespacePath(name string) Path { return Path("/_sys/namespaces/" + name) }
