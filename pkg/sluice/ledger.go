package sluice

import (
	"encoding/json"
	"strings"
	"time"
)

// ActorSystem is who makes the changes that nobody asked for: the server itself.
const ActorSystem = "system"

// Actions of the ledger. They are data: "kind.verb", and more kinds may come.
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
	ActionStreamWakeCreate    = "stream_subscription.create"
	ActionStreamWakeDelete    = "stream_subscription.delete"
	ActionNamespaceCreate     = "namespace.create"
	ActionNamespaceUpdate     = "namespace.update"
	ActionNamespaceDelete     = "namespace.delete"
	ActionEventTypeCreate     = "event_type.create"
	ActionEventTypeUpdate     = "event_type.update"
	ActionEventTypeDelete     = "event_type.delete"
	ActionReplayStart         = "replay.start" // redriving included
	ActionReplayCancel        = "replay.cancel"
	ActionDeadLetterDiscard   = "dead_letter.discard"
	ActionProducerMark        = "producer.mark"    // as unsafe
	ActionProducerClear       = "producer.clear"   // of that mark
	ActionDeliveryRetry       = "delivery.retry"   // of the head of a held lane
	ActionDeliveryDiscard     = "delivery.discard" // the same
	ActionGrantIssue          = "grant.issue"
	ActionGrantRenew          = "grant.renew"
	ActionGrantRevoke         = "grant.revoke"
	ActionACLPut              = "acl.put"
	ActionACLDelete           = "acl.delete"
	ActionPrincipalPut        = "principal.put"
	ActionPrincipalDelete     = "principal.delete"
	ActionLabelPut            = "label.put"
	ActionTombstonePut        = "tombstone.put"
	ActionWatchPut            = "watch.put" // made, or in the place of another one
	ActionWatchDelete         = "watch.delete"
	ActionKeyRotate           = "key.rotate"
	ActionStorageDamage       = "storage.damage" // it was found
	ActionScheduledCancel     = "scheduled.cancel"
	ActionAppointmentCreate   = "appointment.create"
	ActionAppointmentUpdate   = "appointment.update"
	ActionAppointmentDelete   = "appointment.delete" // cancelling included
)

// LedgerOutcome is how a change ended.
type LedgerOutcome string

// How a change can end.
const (
	ChangeDone   LedgerOutcome = "done"
	ChangeFailed LedgerOutcome = "failed"
)

// LedgerEntry says who did what to what. It is written before the change is made; if the
// change then fails, a second entry says so and names the first.
type LedgerEntry struct {
	ID        string          `json:"id"`
	Seq       uint64          `json:"seq"` // its place in the ledger
	At        time.Time       `json:"at"`
	Actor     string          `json:"actor"`
	Grant     string          `json:"grant,omitempty"` // under which it was done; "" of root and the server itself
	Action    string          `json:"action"`
	Namespace string          `json:"namespace,omitempty"`
	Resource  string          `json:"resource"`      // id or name; the action says of what kind
	Old       json.RawMessage `json:"old,omitempty"` // the fields that change as they were; missing if the resource is new
	New       json.RawMessage `json:"new,omitempty"` // the same fields as they shall be; missing if the resource goes
	RequestID string          `json:"request_id,omitempty"`
	Outcome   LedgerOutcome   `json:"outcome"`
	Error     Code            `json:"error,omitempty"`  // of a change that failed
	Intent    string          `json:"intent,omitempty"` // id of the entry whose change failed
}

// maxAction is how long an action may be: it is part of a subject, and a NATS server closes the
// connection of whoever sends it a line of more than 4 KiB.
const maxAction = 64

// CheckAction returns an error (InvalidRequest) unless the text can be an action, or the
// beginning of some and ".*", of at most 64 bytes.
func CheckAction(action string) error {
	if len(action) > maxAction {
		return Errorf(InvalidRequest, "the action has %d bytes; no action has more than %d", len(action), maxAction)
	}
	for word := range strings.SplitSeq(strings.TrimSuffix(action, ".*"), ".") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return Errorf(InvalidRequest, "action %q: use an action such as %s, or a kind such as subscription.*", action, ActionSubscriptionPause)
		}
	}
	return nil
}
