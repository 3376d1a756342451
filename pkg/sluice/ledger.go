package sluice

import (
	"encoding/json"
	"time"
)

// ActorSystem is the actor of changes made by the server itself.
const ActorSystem = "system"

// Actions of the ledger, in the form "kind.verb". Later releases may add kinds.
const (
	ActionSubscriptionCreate  = "subscription.create"
	ActionSubscriptionUpdate  = "subscription.update"
	ActionSubscriptionPause   = "subscription.pause"
	ActionSubscriptionResume  = "subscription.resume"
	ActionSubscriptionRotate  = "subscription.rotate"
	ActionSubscriptionSeek    = "subscription.seek"
	ActionSubscriptionCancel  = "subscription.cancel"
	ActionSubscriptionDisable = "subscription.disable"
	ActionSubscriptionSuspend = "subscription.suspend"
	ActionSubscriptionDelete  = "subscription.delete"
	ActionMirrorCreate        = "mirror.create"
	ActionMirrorUpdate        = "mirror.update"
	ActionMirrorSuspend       = "mirror.suspend"
	ActionMirrorResume        = "mirror.resume"
	ActionMirrorDelete        = "mirror.delete"
	ActionMirrorImport        = "mirror.import"
	ActionEnrichmentPut       = "enrichment.put" // created or replaced
	ActionEnrichmentDelete    = "enrichment.delete"
	ActionTrustedKeyAdd       = "trusted_key.add"
	ActionTrustedKeyRevoke    = "trusted_key.revoke"
	ActionStreamWakeCreate    = "stream_subscription.create"
	ActionStreamWakeDelete    = "stream_subscription.delete"
	ActionNamespaceCreate     = "namespace.create"
	ActionNamespaceUpdate     = "namespace.update"
	ActionNamespaceDelete     = "namespace.delete"
	ActionEventTypeCreate     = "event_type.create"
	ActionEventTypeUpdate     = "event_type.update"
	ActionEventTypeDelete     = "event_type.delete"
	ActionProblemChange       = "problem.change"
	ActionReplayStart         = "replay.start" // including redrives
	ActionReplayCancel        = "replay.cancel"
	ActionDeadLetterDiscard   = "dead_letter.discard"
	ActionProducerMark        = "producer.mark"  // marks a producer as unsafe
	ActionProducerClear       = "producer.clear" // removes the mark
	ActionDeliveryRetry       = "delivery.retry" // the head of a held lane, or all parked lanes
	ActionSubscriptionProbe   = "subscription.probe"
	ActionDeliveryDiscard     = "delivery.discard" // the head of a held lane
	ActionGrantIssue          = "grant.issue"
	ActionGrantRenew          = "grant.renew"
	ActionGrantRevoke         = "grant.revoke"
	ActionPortalLink          = "portal.link"
	ActionPortalSession       = "portal.session" // a link was used, or its use was refused
	ActionACLPut              = "acl.put"
	ActionACLDelete           = "acl.delete"
	ActionPrincipalPut        = "principal.put"
	ActionPrincipalDelete     = "principal.delete"
	ActionLabelPut            = "label.put"
	ActionTombstonePut        = "tombstone.put"
	ActionWatchPut            = "watch.put" // created or replaced
	ActionWatchDelete         = "watch.delete"
	ActionKeyRotate           = "key.rotate"
	ActionStorageDamage       = "storage.damage" // damage was found
	ActionScheduledCancel     = "scheduled.cancel"
	ActionAppointmentCreate   = "appointment.create"
	ActionAppointmentUpdate   = "appointment.update"
	ActionAppointmentDelete   = "appointment.delete" // including cancellations
	ActionModuleApprove       = "module.approve"
	ActionModuleDisable       = "module.disable"
	ActionModuleRemove        = "module.remove"
	ActionModuleUnsafe        = "module.unsafe" // its subscriptions are suspended
)

// LedgerOutcome is the outcome of a change.
type LedgerOutcome string

// The outcomes of a change.
const (
	ChangeDone   LedgerOutcome = "done"
	ChangeFailed LedgerOutcome = "failed"
)

// LedgerEntry records an actor's change of a resource. The server writes it before it makes the
// change. If the change then fails, a second entry records the failure and names the first.
type LedgerEntry struct {
	ID    string    `json:"id"`
	Seq   uint64    `json:"seq"` // sequence in the ledger
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	// Grant is the grant of the change; "" for root and the server itself.
	Grant     string `json:"grant,omitempty"`
	Action    string `json:"action"`
	Namespace string `json:"namespace,omitempty"`
	Resource  string `json:"resource"` // ID or name; the action implies its kind
	// Old holds the previous values of the changed fields; absent on creation.
	Old json.RawMessage `json:"old,omitempty"`
	// New holds the new values of the same fields; absent on deletion.
	New       json.RawMessage `json:"new,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Outcome   LedgerOutcome   `json:"outcome"`
	Error     Code            `json:"error,omitempty"`  // error of a failed change
	Intent    string          `json:"intent,omitempty"` // ID of the entry whose change failed
}
