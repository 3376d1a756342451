package sluice

import "net/url"

// SystemSource is the source of system events.
const SystemSource = "/sluice"

// Types of the system events.
const (
	TypeSubscriptionCreated   = "subscription.created"
	TypeSubscriptionUpdated   = "subscription.updated"
	TypeSubscriptionPaused    = "subscription.paused"
	TypeSubscriptionResumed   = "subscription.resumed"
	TypeSubscriptionDisabled  = "subscription.disabled"
	TypeSubscriptionSuspended = "subscription.suspended"
	TypeSubscriptionCancelled = "subscription.cancelled"
	TypeAccessRevoked         = "subscription_cancelled_access_revoked" // replaces subscription.cancelled (S0-64)
	TypeSubscriptionDeleted   = "subscription.deleted"
	TypeSecretRotated         = "subscription.secret_rotated"
	TypeSubscriptionThrottled = "subscription.throttled"
	TypeSubscriptionFailing   = "subscription.failing"
	TypeBreakerOpened         = "subscription.breaker_opened"
	TypeBreakerClosed         = "subscription.breaker_closed"
	TypeDeliveryDead          = "delivery.dead"
	TypeServerStarted         = "sys.start"    // S4-34
	TypeServerStopping        = "sys.shutdown" // S4-34
	TypeStorageDamaged        = "sys.damage"   // stored data was found damaged or deleted
	TypeNamespaceCreated      = "namespace.created"
	TypeNamespaceUpdated      = "namespace.updated"
	TypeNamespaceDeleted      = "namespace.deleted"
	TypeDeliveryHeld          = "delivery.held"
	TypeProducerUnsafe        = "producer_unsafe"
	TypeScheduledFailed       = "scheduled.failed"    // a due event could not be published
	TypeScheduledCancelled    = "scheduled.cancelled" // cancelled before its time
	TypeEventTypeOrphaned     = "event_type.orphaned" // S2-47

	TypeAppointmentApproaching = "appointment.approaching" // S2-38
	TypeAppointmentFired       = "appointment.fired"       // S2-39
	TypeAppointmentMissed      = "appointment.missed"      // S2-40
	TypeAppointmentCancelled   = "appointment.cancelled"   // S2-41
)

// ReasonAccessRevoked is the reason of a subscription that was cancelled because its owner lost
// access.
const ReasonAccessRevoked = "access_revoked"

// StoragePath is the path of system events about the store.
const StoragePath Path = "/_sys/storage"

// ProducersPath is the path of system events about producers.
const ProducersPath Path = "/_sys/producers"

// ScheduledPath is the path of system events about scheduled events.
const ScheduledPath Path = "/_sys/scheduled"

// SubscriptionPath returns the path of system events about a subscription.
func SubscriptionPath(id string) Path { return Path("/_sys/subscriptions/" + id) }

// DeliveriesPath returns the path of system events about a subscription's deliveries.
func DeliveriesPath(subscription string) Path { return Path("/_sys/deliveries/" + subscription) }

// ServerPath returns the path of system events about a server, in the default namespace.
func ServerPath(replica string) Path { return Path("/_sys/server/" + replica) }

// EventTypePath returns the path of system events about an event type of a namespace.
func EventTypePath(eventType string) Path {
	return Path("/_sys/event-types/" + url.PathEscape(eventType))
}

// NamespacePath returns the path of system events about a namespace. They are in the default
// namespace, because the namespace's own log is created and deleted with it.
func NamespacePath(name string) Path { return Path("/_sys/namespaces/" + name) }
