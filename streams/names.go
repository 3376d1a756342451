package streams

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// How the subjects of each stream start.
const (
	eventsPrefix      = "events."
	attemptsPrefix    = "attempts."
	deadLettersPrefix = "dead."
	ledgerPrefix      = "ledger."
	recordsPrefix     = "durable."
)

// Streams that exist once.
const (
	Attempts    = "ATTEMPTS"    // one message an attempt
	DeadLetters = "DEADLETTERS" // one message a delivery that was given up
	Ledger      = "LEDGER"      // one message a change
)

// Buckets.
const (
	Namespaces    = "namespaces"    // key: namespace
	Subscriptions = "subscriptions" // key: subscription
	Reservations  = "reservations"  // key: hash of what makes two subscriptions the same
	Lanes         = "lanes"         // key: LaneKey; a record exists while the lane is parked
	Replays       = "replays"       // key: ReplayKey
	Leases        = "leases"        // key: what is leased; expires unless renewed
	Keys          = "keys"          // key: key id; the server's signing keys
	Access        = "access"        // key: GrantKey and those that follow it; who may do what
	Unsafe        = "unsafe"        // key: ProducerKey
	EventTypes    = "eventtypes"    // key: EventTypeKey
	Wakes         = "wakes"         // key: WakeKey
	StreamWakes   = "streamwakes"   // key: namespace and a hash of root and id; what wakes whom of streams
	Instructions  = "instructions"  // key: InstructionKey
	Scheduled     = "scheduled"     // key: ScheduledKey
	Watches       = "watches"       // key: WatchKey
	Answers       = "answers"       // key: hash of holder, request and Idempotency-Key
	Told          = "told"          // key: subscription, or ToldNamespaceKey
)

// EventsStream returns the name of a namespace's stream.
func EventsStream(namespace string) string { return "EVENTS_" + namespace }

// BucketStream returns the name of the stream that a bucket is.
func BucketStream(bucket string) string { return "KV_" + bucket }

// Ours reports whether a stream is one of Sluice's: a log, a bucket, or one of those that there is one of.
func Ours(name string) bool {
	if strings.HasPrefix(name, EventsStream("")) {
		return true
	}
	return slices.Contains(Lasting(), name)
}

// EventsSubjects returns the subjects that a namespace's stream takes.
func EventsSubjects(namespace string) string { return eventsPrefix + namespace + ".>" }

// RecordsSubjects returns the subjects of what is kept of a namespace's paths besides their events, in the
// same stream: both can be stored in one step.
func RecordsSubjects(namespace string) string { return recordsPrefix + namespace + ".>" }

// moved ends the subjects of what a stream is moved on with. No path, key or subscription has it.
const moved = "=moved"

// MoveSubject returns the subject of what a namespace's stream is moved on with after it lost its end, so that no sequence
// is given out twice. What is written there is taken away at once.
func MoveSubject(namespace string) string { return recordsPrefix + namespace + "." + moved }

// MoveSubjectOf is MoveSubject for a stream that exists once.
func MoveSubjectOf(d Stream) string { return strings.TrimSuffix(d.Subjects[0], ">") + moved }

// RecordSubject returns the subject of a path's record.
func RecordSubject(namespace string, path sluice.Path) string {
	return encode(recordsPrefix+namespace, path.Segments(), harmless)
}

// SystemSubjects returns the subjects of the events that the server publishes about itself.
func SystemSubjects(namespace string) string { return eventsPrefix + namespace + "._sys.>" }

// AttemptsSubject returns the subject of a subscription's attempts.
func AttemptsSubject(namespace, subscription string) string {
	return attemptsPrefix + namespace + "." + subscription
}

// DeadLettersSubjects returns the subjects that the stream of dead letters takes.
func DeadLettersSubjects() string { return deadLettersPrefix + ">" }

// DeadLettersSubject returns the filter that matches the subjects of all of a subscription's
// dead letters.
func DeadLettersSubject(namespace, subscription string) string {
	return deadLettersPrefix + namespace + "." + subscription + ".>"
}

// DeadLetterSubject returns the subject of a delivery's dead letter, of which there is one at
// most: "dead.<namespace>.<subscription>.<seq>.<event id>", or, if the event was never seen, with
// "=" and its path instead of the id.
func DeadLetterSubject(d *sluice.DeadLetter) string {
	seq := strconv.FormatUint(d.Seq, 10)
	prefix := deadLettersPrefix + d.Namespace + "." + d.Subscription + "." + seq + "."
	if d.EventID != "" {
		return prefix + idToken(d.EventID)
	}
	if d.Path == "" {
		return prefix + "=.="
	}
	return encode(prefix+"=", d.Path.Segments(), harmless)
}

// DeadLetterOfEvent returns the filter that matches the subjects of an event's dead letters. There
// is more than one only if the id was published again after the dedup window.
func DeadLetterOfEvent(namespace, subscription, event string) string {
	return deadLettersPrefix + namespace + "." + subscription + ".*." + idToken(event)
}

// DeadLetterOfSeq returns the filter that matches the subjects of dead letters that begin at a
// sequence and whose event was never seen.
func DeadLetterOfSeq(namespace, subscription string, seq uint64) string {
	return deadLettersPrefix + namespace + "." + subscription + "." + strconv.FormatUint(seq, 10) + ".=.>"
}

// idToken returns the subject token of an event's id. What NATS publishers call an id may be
// too long for a subject.
func idToken(id string) string {
	if len(id) > sluice.MaxIDBytes {
		return fmt.Sprintf("=h%x", sha256.Sum256([]byte(id)))
	}
	return encode("", []string{id}, harmless)[1:]
}

// noNamespace stands for the namespace of what belongs to none; no namespace is called so.
const noNamespace = "_"

// LedgerSubject returns the subject of an entry in the ledger: the namespace of what was
// changed, if it has one, and the action.
func LedgerSubject(namespace, action string) string {
	return ledgerPrefix + cmp.Or(namespace, noNamespace) + "." + action
}

// LedgerFilter returns the subjects of the entries about a namespace, "" for all, and with an
// action, "" for all; an action that ends in ".*" is all that begin so.
func LedgerFilter(namespace, action string) string {
	if kind, ok := strings.CutSuffix(action, "*"); ok {
		action = kind + ">"
	}
	return ledgerPrefix + cmp.Or(namespace, "*") + "." + cmp.Or(action, ">")
}

const rootSuffix = "_root"

// Consumers returns the names of a subscription's durable consumers, as many as it has
// filters, one or two: the subscription's id, and the id and "_root" for the path before a
// final "**".
func Consumers(subscription string, filters int) []string {
	return []string{subscription, subscription + rootSuffix}[:filters]
}

// CheckSubscriptionID returns an error (InvalidRequest) unless id can name a consumer: 1 to
// 64 of A–Z, a–z, 0–9, "_" and "-", not ending in "_root".
func CheckSubscriptionID(id string) error {
	if len(id) > 64 || encode("", []string{id}, keyable) != "."+id {
		return sluice.Errorf(sluice.InvalidRequest, "subscription id %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", id)
	}
	if strings.HasSuffix(id, rootSuffix) {
		return sluice.Errorf(sluice.InvalidRequest, "subscription id %q: the ending %s is reserved", id, rootSuffix)
	}
	return nil
}

// LaneKey returns the key of the lane that an event of the path with the sequence belongs to:
// "<subscription>.p.<path>", "<subscription>.e.<seq>" or "<subscription>.a".
func LaneKey(subscription string, ordering sluice.Ordering, path sluice.Path, seq uint64) string {
	switch ordering {
	case sluice.OrderAll:
		return subscription + ".a"
	case sluice.OrderNone:
		return subscription + ".e." + strconv.FormatUint(seq, 10)
	case sluice.OrderByPath:
	}
	return encode(subscription+".p", path.Segments(), keyable)
}

// LaneKeys returns the filter that matches every lane key of a subscription.
func LaneKeys(subscription string) string { return subscription + ".>" }

// ToldNamespaceKey returns the key of what was told of a namespace. No subscription has it as its id.
func ToldNamespaceKey(namespace string) string { return "=namespace." + namespace }

// LookoutKey returns the key, beside the lanes, of how far a subscription's events are accounted
// for. No lane's key starts like it.
func LookoutKey(subscription string) string { return "=lookout." + subscription }

// ReplayLanes returns what the keys of a replay's lanes begin with, where those of live lanes
// have the subscription's id. No id begins so.
func ReplayLanes(replay string) string { return "=replay." + replay }

// ReplayKey returns the key of a replay's record.
func ReplayKey(subscription, replay string) string { return subscription + "." + replay }

// ReplayKeys returns the filter that matches the keys of a subscription's replays.
func ReplayKeys(subscription string) string { return subscription + ".>" }

// ParseReplayKey returns what ReplayKey was given.
func ParseReplayKey(key string) (subscription, replay string) {
	at := strings.LastIndexByte(key, '.')
	return key[:max(at, 0)], key[at+1:]
}

// ProducerKey returns the key of the mark of an unsafe producer.
func ProducerKey(producer string) string { return encode("", []string{producer}, keyable)[1:] }

// WakeKey returns the key of the wake consumer that a subscription has of a path.
func WakeKey(subscription string, path sluice.Path) string {
	return encode(subscription, path.Segments(), keyable)
}

// WakeKeys returns the filter that matches the keys of a subscription's wake consumers.
func WakeKeys(subscription string) string { return subscription + ".>" }

// WakeFloorKey returns the key of the last epoch that a subscription's wake consumers had when they were all removed.
// No consumer's key starts like it.
func WakeFloorKey(subscription string) string { return "=floor." + subscription }

// EventTypeKey returns the key of an entry of a namespace's catalogue.
func EventTypeKey(namespace, eventType string) string {
	return encode(namespace, []string{eventType}, keyable)
}

// EventTypeKeys returns the filter that matches the keys of a namespace's catalogue.
func EventTypeKeys(namespace string) string { return namespace + ".>" }

// HealthKey returns the key, beside the lanes, of what is remembered of a subscription whose
// endpoint is in trouble.
func HealthKey(subscription string) string { return "=health." + subscription }

// IsEventLane reports whether the key is of a lane that is one event (ordering none).
func IsEventLane(subscription, key string) bool {
	return strings.HasPrefix(key, subscription+".e.")
}

// GrantKey returns the key of a grant.
func GrantKey(id string) string { return "grant." + id }

// ACLKey returns the key of what a principal may do in a namespace; without a principal, of the
// list's head.
func ACLKey(namespace string, principal sluice.Principal) string {
	if principal == "" {
		return "acl." + namespace
	}
	return encode("acl."+namespace, []string{string(principal)}, keyable)
}

// ProfileKey returns the key of what is known of a principal.
func ProfileKey(principal sluice.Principal) string {
	return encode("principal", []string{string(principal)}, keyable)
}

// LabelKey returns the key of a namespace's label.
func LabelKey(namespace string) string { return "label." + namespace }

// TombstoneKey returns the key of the tombstone of a path.
func TombstoneKey(namespace string, path sluice.Path) string {
	return encode("tombstone."+namespace, path.Segments(), keyable)
}

// PresenceKey returns the key under which a replica says that it is there.
func PresenceKey(replica string) string { return encode("replica", []string{replica}, keyable) }

// InstructionKey returns the key of an instruction's record: "<kind>.<namespace>.<id>".
func InstructionKey(kind sluice.InstructionKind, namespace, id string) string {
	return encode(string(kind)+"."+namespace, []string{id}, keyable)
}

// InstructionKeys returns the filter that matches the keys of the instructions of a kind in a namespace, "" for all.
func InstructionKeys(kind sluice.InstructionKind, namespace string) string {
	return string(kind) + "." + cmp.Or(namespace, "*") + ".*"
}

// ParseInstructionKey returns the namespace and the id of an instruction, which are such that its key has
// them as they are.
func ParseInstructionKey(key string) (namespace, id string) {
	_, rest, _ := strings.Cut(key, ".")
	namespace, id, _ = strings.Cut(rest, ".")
	return namespace, id
}

// ScheduledKey returns the key of an event that is stored at a time.
func ScheduledKey(namespace, event string) string {
	return encode(namespace, []string{event}, keyable)
}

// ScheduledKeys returns the filter that matches the keys of a namespace's events that are stored at a time.
func ScheduledKeys(namespace string) string { return namespace + ".>" }

// ParseScheduledKey returns what ScheduledKey was given. Code InvalidRequest for a key that it does not make.
func ParseScheduledKey(key string) (namespace, event string, err error) {
	namespace, token, _ := strings.Cut(key, ".")
	var id strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '=' {
			c, _ = unhex(token[i+1:])
			i += 2
		}
		id.WriteByte(c)
	}
	if id.Len() == 0 || ScheduledKey(namespace, id.String()) != key {
		return "", "", sluice.Errorf(sluice.InvalidRequest, "%q is no key of an event", key)
	}
	return namespace, id.String(), nil
}

// WatchKey returns the key of the record of how far a watch has come: "<namespace>.<id>".
func WatchKey(namespace, id string) string { return encode(namespace, []string{id}, keyable) }

// WatchKeys returns the filter that matches the keys of a namespace's watches.
func WatchKeys(namespace string) string { return namespace + ".*" }
