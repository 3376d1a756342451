package streams

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Prefixes of the subjects of each stream.
const (
	eventsPrefix      = "events."
	attemptsPrefix    = "attempts."
	deadLettersPrefix = "dead."
	ledgerPrefix      = "ledger."
	mirrorPrefix      = "mirror."
	knowledgePrefix   = "knowledge."
	recordsPrefix     = "durable."
)

// Buckets, without the prefix.
const (
	Namespaces    = "namespaces"    // key: namespace
	Subscriptions = "subscriptions" // key: subscription
	Reservations  = "reservations"  // key: hash of the identity of a subscription
	Lanes         = "lanes"         // key: LaneKey; a record exists while the lane is parked
	Replays       = "replays"       // key: ReplayKey
	Leases        = "leases"        // key: the leased resource; expires unless renewed
	Keys          = "keys"          // key: key ID; the server's signing keys
	Access        = "access"        // key: GrantKey and those below it; permissions
	Unsafe        = "unsafe"        // key: ProducerKey
	EventTypes    = "eventtypes"    // key: EventTypeKey
	Wakes         = "wakes"         // key: WakeKey
	StreamWakes   = "streamwakes"   // key: namespace and a hash of root and ID; stream subscriptions
	Instructions  = "instructions"  // key: InstructionKey
	Scheduled     = "scheduled"     // key: ScheduledKey
	Watches       = "watches"       // key: WatchKey
	Answers       = "answers"       // key: hash of holder, request and Idempotency-Key
	Told          = "told"          // key: subscription, or ToldNamespaceKey
	Rollups       = "rollups"       // key: process, minute and part; process, "hour", hour and part; process, "standing" and part; or process and "replica"
	Problems      = "problems"      // key: subscription and class of failure
	Mirrors       = "mirrors"       // key: mirror
	Credentials   = "credentials"   // key: mirror; tokens for sources of mirrors
	TrustedKeys   = "trustedkeys"   // key: namespace; keys that sign bundles for it
	Enrichments   = "enrichments"   // key: namespace; how its entries are enriched
	Modules       = "modules"       // key: module; its approval
	PortalLinks   = "portallinks"   // key: PortalLinkKey
)

// EventsSubjects returns the subjects of a namespace's stream.
func (n Names) EventsSubjects(namespace string) string {
	return n.dot + eventsPrefix + namespace + ".>"
}

// RecordsSubjects returns the subjects of the records of a namespace's paths. They are in the same
// stream as the events, so that both can be stored atomically.
func (n Names) RecordsSubjects(namespace string) string {
	return n.dot + recordsPrefix + namespace + ".>"
}

// moved is the last token of subjects that advance a stream. No path, key or subscription contains
// it.
const moved = "=moved"

// MoveSubject returns the subject for advancing a namespace's stream after it lost its end, so that
// no sequence is assigned twice. Messages on it are removed immediately.
func (n Names) MoveSubject(namespace string) string {
	return n.dot + recordsPrefix + namespace + "." + moved
}

// MoveSubjectOf is MoveSubject for a single stream.
func MoveSubjectOf(d Stream) string { return strings.TrimSuffix(d.Subjects[0], ">") + moved }

// ErasedSubject returns the subject of the records of a namespace's erased events. No path's record
// has it.
func (n Names) ErasedSubject(namespace string) string {
	return n.dot + recordsPrefix + namespace + ".=erased"
}

// RecordSubject returns the subject of a path's record.
func (n Names) RecordSubject(namespace string, path sluice.Path) string {
	return encode(n.dot+recordsPrefix+namespace, path.Segments(), harmless)
}

// SystemSubjects returns the subjects of the system events.
func (n Names) SystemSubjects(namespace string) string {
	return n.dot + eventsPrefix + namespace + "._sys.>"
}

// AttemptsSubject returns the subject of a subscription's attempts.
func (n Names) AttemptsSubject(namespace, subscription string) string {
	return n.dot + attemptsPrefix + namespace + "." + subscription
}

// DeadLettersSubjects returns the subjects of the stream of dead letters.
func (n Names) DeadLettersSubjects() string { return n.dot + deadLettersPrefix + ">" }

// DeadLettersSubject returns the filter for all dead letters of a subscription.
func (n Names) DeadLettersSubject(namespace, subscription string) string {
	return n.dot + deadLettersPrefix + namespace + "." + subscription + ".>"
}

// DeadLetterSubject returns the subject of a delivery's dead letter, of which there is at most one:
// "dead.<namespace>.<subscription>.<seq>.<event id>", or, for an event that was never read, with
// "=" and its path in place of the ID.
func (n Names) DeadLetterSubject(d *sluice.DeadLetter) string {
	seq := strconv.FormatUint(d.Seq, 10)
	prefix := n.dot + deadLettersPrefix + d.Namespace + "." + d.Subscription + "." + seq + "."
	if d.EventID != "" {
		return prefix + idToken(d.EventID)
	}
	if d.Path == "" {
		return prefix + "=.="
	}
	return encode(prefix+"=", d.Path.Segments(), harmless)
}

// DeadLetterOfEvent returns the filter for the dead letters of an event. There is more than one
// only if the ID was published again after the dedup window.
func (n Names) DeadLetterOfEvent(namespace, subscription, event string) string {
	return n.dot + deadLettersPrefix + namespace + "." + subscription + ".*." + idToken(event)
}

// DeadLetterOfSeq returns the filter for dead letters that start at a sequence and whose event was
// never read.
func (n Names) DeadLetterOfSeq(namespace, subscription string, seq uint64) string {
	return n.dot + deadLettersPrefix + namespace + "." + subscription + "." + strconv.FormatUint(seq, 10) + ".=.>"
}

// idToken returns the subject token of an event's ID. IDs from NATS publishers may be too long for
// a subject.
func idToken(id string) string {
	if len(id) > sluice.MaxIDBytes {
		return fmt.Sprintf("=h%x", sha256.Sum256([]byte(id)))
	}
	return encode("", []string{id}, harmless)[1:]
}

// MirrorSubjects returns the subjects of all messages of a mirror.
func (n Names) MirrorSubjects(mirror string) string { return n.dot + mirrorPrefix + mirror + ".>" }

// MirrorPlaceSubject returns the subject of a mirror's place.
func (n Names) MirrorPlaceSubject(mirror string) string {
	return n.dot + mirrorPrefix + mirror + ".place"
}

// MirrorEntrySubject returns the subject of a mirrored entry, given the ID that the entry has at
// the source.
func (n Names) MirrorEntrySubject(mirror, entry string) string {
	return n.dot + mirrorPrefix + mirror + ".entry." + idToken(entry)
}

// MirrorEntriesSubject returns the filter for all entries of a mirror.
func (n Names) MirrorEntriesSubject(mirror string) string {
	return n.dot + mirrorPrefix + mirror + ".entry.*"
}

// MirrorGapSubject returns the subject of the gap of a mirror that begins at a sequence.
func (n Names) MirrorGapSubject(mirror string, from uint64) string {
	return n.dot + mirrorPrefix + mirror + ".gap." + strconv.FormatUint(from, 10)
}

// MirrorGapsSubject returns the filter for all gaps of a mirror.
func (n Names) MirrorGapsSubject(mirror string) string {
	return n.dot + mirrorPrefix + mirror + ".gap.*"
}

// KnowledgeSubjects returns the filter for all embeddings and comparisons of a namespace.
func (n Names) KnowledgeSubjects(namespace string) string {
	return n.dot + knowledgePrefix + namespace + ".>"
}

// KnowledgeSubject returns the subject of an embedding or a comparison.
func (n Names) KnowledgeSubject(namespace, id string) string {
	return n.dot + knowledgePrefix + namespace + "." + id
}

// KnowledgeID returns the ID of the embedding or comparison with this subject in a namespace.
func (n Names) KnowledgeID(namespace, subject string) string {
	return strings.TrimPrefix(subject, n.dot+knowledgePrefix+namespace+".")
}

// LocalKnowledge returns the ID of the embedding of a namespace's own entry.
func LocalKnowledge(entry string) string { return "entry." + idToken(entry) }

// MirroredKnowledge returns the ID of the embedding of a mirrored entry.
func MirroredKnowledge(mirror, entry string) string {
	return "mirrored." + mirror + "." + idToken(entry)
}

// Comparisons returns the prefix of the IDs of the comparisons of a namespace's own entry. A dot
// and a hash follow it.
func Comparisons(entry string) string { return "comparison." + idToken(entry) }

// Comparison returns the ID of a comparison of a namespace's own entry.
func Comparison(entry, hash string) string { return Comparisons(entry) + "." + hash }

// noNamespace takes the place of the namespace in the subjects of entries without one. No namespace
// has this name.
const noNamespace = "_"

// LedgerSubject returns the subject of an entry in the ledger: the namespace of the changed
// resource, if it has one, and the action.
func (n Names) LedgerSubject(namespace, action string) string {
	return n.dot + ledgerPrefix + cmp.Or(namespace, noNamespace) + "." + action
}

// LedgerFilter returns the subjects of the entries of a namespace ("" for all) and an action (""
// for all); a trailing ".*" matches all actions with that prefix.
func (n Names) LedgerFilter(namespace, action string) string {
	if kind, ok := strings.CutSuffix(action, "*"); ok {
		action = kind + ">"
	}
	return n.dot + ledgerPrefix + cmp.Or(namespace, "*") + "." + cmp.Or(action, ">")
}

const rootSuffix = "_root"

// Consumers returns the names of a subscription's durable consumers, one per filter: the
// subscription's ID, and for a second filter the ID with "_root", for the path before a final "**".
func Consumers(subscription string, filters int) []string {
	return []string{subscription, subscription + rootSuffix}[:filters]
}

// CheckSubscriptionID returns an error (InvalidRequest) unless the ID can be a consumer's name: 1
// to 64 of A–Z, a–z, 0–9, "_" and "-", not ending in "_root".
func CheckSubscriptionID(id string) error {
	if len(id) > 64 || encode("", []string{id}, keyable) != "."+id {
		return sluice.Errorf(sluice.InvalidRequest, "subscription id %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", id).With("field", "id")
	}
	if strings.HasSuffix(id, rootSuffix) {
		return sluice.Errorf(sluice.InvalidRequest, "subscription id %q: the ending %s is reserved", id, rootSuffix).With("field", "id")
	}
	return nil
}

// LaneKey returns the key of an event's lane, from its path or sequence: "<subscription>.p.<path>",
// "<subscription>.e.<seq>" or "<subscription>.a".
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

// ToldNamespaceKey returns the key of the outbox position of a namespace. No subscription has it as
// its ID.
func ToldNamespaceKey(namespace string) string { return "=namespace." + namespace }

// LookoutKey returns the key, next to the lanes, of the position up to which a subscription's
// events are accounted for. No lane's key has this prefix.
func LookoutKey(subscription string) string { return "=lookout." + subscription }

// CursorKey returns the key, next to the lanes, of the cursor of a shard of subscriptions in a
// namespace. No lane's key has this prefix.
func CursorKey(namespace string, shard int) string {
	return "=cursor." + namespace + "." + strconv.Itoa(shard)
}

// ReplayLanes returns the prefix of the lane keys of a replay. The keys of live lanes have the
// subscription's ID in its place. No ID starts with "=".
func ReplayLanes(replay string) string { return "=replay." + replay }

// ReplayKey returns the key of a replay's record.
func ReplayKey(subscription, replay string) string { return subscription + "." + replay }

// ReplayKeys returns the filter that matches the keys of a subscription's replays.
func ReplayKeys(subscription string) string { return subscription + ".>" }

// ParseReplayKey is the inverse of ReplayKey.
func ParseReplayKey(key string) (subscription, replay string) {
	at := strings.LastIndexByte(key, '.')
	return key[:max(at, 0)], key[at+1:]
}

// ProducerKey returns the key of the record of an unsafe producer.
func ProducerKey(producer string) string { return encode("", []string{producer}, keyable)[1:] }

// WakeKey returns the key of a subscription's wake consumer for a path.
func WakeKey(subscription string, path sluice.Path) string {
	return encode(subscription, path.Segments(), keyable)
}

// WakeKeys returns the filter that matches the keys of a subscription's wake consumers.
func WakeKeys(subscription string) string { return subscription + ".>" }

// WakeFloorKey returns the key of the last epoch that a subscription's wake consumers had when they
// were all removed. No consumer's key has this prefix.
func WakeFloorKey(subscription string) string { return "=floor." + subscription }

// EventTypeKey returns the key of an entry of a namespace's catalogue.
func EventTypeKey(namespace, eventType string) string {
	return encode(namespace, []string{eventType}, keyable)
}

// EventTypeKeys returns the filter that matches the keys of a namespace's catalogue.
func EventTypeKeys(namespace string) string { return namespace + ".>" }

// HealthKey returns the key, next to the lanes, of the health record of a subscription whose
// endpoint is failing.
func HealthKey(subscription string) string { return "=health." + subscription }

// IsEventLane reports whether the key is that of a single-event lane (ordering none).
func IsEventLane(subscription, key string) bool {
	return strings.HasPrefix(key, subscription+".e.")
}

// GrantKey returns the key of a grant.
func GrantKey(id string) string { return "grant." + id }

// PortalLinkKey returns the key of a link to the portal, from the hashes of the principal and of
// the link's code. The keys of a principal's links begin with the principal's hash.
func PortalLinkKey(principal, code string) string { return principal + "." + code }

// ACLKey returns the key of a principal's entries in a namespace's access list; without a
// principal, the key of the list's head.
func ACLKey(namespace string, principal sluice.Principal) string {
	if principal == "" {
		return "acl." + namespace
	}
	return encode("acl."+namespace, []string{string(principal)}, keyable)
}

// ProfileKey returns the key of a principal's profile.
func ProfileKey(principal sluice.Principal) string {
	return encode("principal", []string{string(principal)}, keyable)
}

// LabelKey returns the key of a namespace's label.
func LabelKey(namespace string) string { return "label." + namespace }

// TombstoneKey returns the key of the tombstone of a path.
func TombstoneKey(namespace string, path sluice.Path) string {
	return encode("tombstone."+namespace, path.Segments(), keyable)
}

// PresenceKey returns the key of a replica's presence record.
func PresenceKey(replica string) string { return encode("replica", []string{replica}, keyable) }

// InstructionKey returns the key of an instruction: "<kind>.<namespace>.<id>".
func InstructionKey(kind sluice.InstructionKind, namespace, id string) string {
	return encode(string(kind)+"."+namespace, []string{id}, keyable)
}

// InstructionKeys returns the filter that matches the keys of the instructions of a kind in a
// namespace ("" for all).
func InstructionKeys(kind sluice.InstructionKind, namespace string) string {
	return string(kind) + "." + cmp.Or(namespace, "*") + ".*"
}

// ParseInstructionKey returns the namespace and the ID of an instruction, both of which its key
// contains unescaped.
func ParseInstructionKey(key string) (namespace, id string) {
	_, rest, _ := strings.Cut(key, ".")
	namespace, id, _ = strings.Cut(rest, ".")
	return namespace, id
}

// ScheduledKey returns the key of a scheduled event.
func ScheduledKey(namespace, event string) string {
	return encode(namespace, []string{event}, keyable)
}

// ScheduledKeys returns the filter that matches the keys of a namespace's scheduled events.
func ScheduledKeys(namespace string) string { return namespace + ".>" }

// ParseScheduledKey is the inverse of ScheduledKey. Code InvalidRequest for any other key.
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
		return "", "", sluice.Errorf(sluice.InvalidRequest, "%q is not the key of an event", key)
	}
	return namespace, id.String(), nil
}

// WatchKey returns the key of the progress record of a watch: "<namespace>.<id>".
func WatchKey(namespace, id string) string { return encode(namespace, []string{id}, keyable) }

// WatchKeys returns the filter that matches the keys of a namespace's watches.
func WatchKeys(namespace string) string { return namespace + ".*" }
