package streams

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	day  = 24 * time.Hour
	week = 7 * day

	// ledgerAge is a year and five weeks: somebody who looks into last year's affairs finds all
	// of it. At least 180 days have to be kept.
	ledgerAge = 400 * day
)

// Consumer limits. JetStream caps a stream at 1,000 consumers unless told otherwise, and the
// readers of a bucket count; an events stream has one or two for each subscription.
const (
	maxEventsConsumers = 20_000
	maxConsumers       = 1_000
)

// Stream describes a stream: in files, limits retention, the oldest messages go first.
type Stream struct {
	Name         string
	Description  string
	Subjects     []string
	MaxAge       time.Duration // 0: for ever
	MaxBytes     int64         // 0: unlimited
	Dedup        time.Duration // window in which a Nats-Msg-Id is stored once; never above MaxAge
	PerSubject   int64         // messages that are kept of a subject, the newest; 0: all
	MaxConsumers int
	AllowDirect  bool // any replica answers reads: fast, and on a cluster possibly a moment old
	AllowAtomic  bool // batches are stored entirely or not at all
	AllowTTL     bool // Nats-TTL lets a message expire before MaxAge
	DenyDelete   bool // single messages cannot be deleted; purging a subject remains possible
	DenyPurge    bool // nor can they be purged
	RefuseFull   bool // at a limit of size, new messages are refused instead of the oldest dropped
	Again        bool // as Bucket.Again
}

// Bucket describes a key-value bucket: in files. Reads of every bucket decide something, so
// they have to be answered by the leader: AllowDirect is false for all of them, which
// JetStream's own default is not.
type Bucket struct {
	Name         string
	Description  string
	History      int           // values kept of a key
	TTL          time.Duration // 0: values stay until they are deleted
	MarkerTTL    time.Duration // how long a purged or expired key leaves a marker; 0: for ever, and no TTL of keys
	MaxConsumers int
	MaxMsgs      int64 // keys at most, then new ones are refused; 0: any number
	AllowDirect  bool

	// Again: a running server makes the bucket again, empty, after it was deleted. Nothing in it gives a right, and no event of a
	// log is undelivered without it. Buckets without it stay missing until an operator restores or gives up what they held.
	Again bool
}

// Consumer describes a durable pull consumer with explicit acknowledgement. It has no BackOff
// and no limit of deliveries: retries are parked lanes, never negative acknowledgements.
type Consumer struct {
	Name        string
	Stream      string
	Description string
	Filter      Filter
	Start       sluice.StartAt
	AckWait     time.Duration
	MaxPending  int // handed out and unacknowledged at most
	HeadersOnly bool
	MaxDeliver  int // -1: no limit
}

// Events describes a namespace's stream. Its retention and dedup window have defaults: a week
// and an hour.
func Events(ns sluice.Namespace) Stream {
	age, dedup := ns.Retention.MaxAge.Std(), ns.DedupWindow.Std()
	if age == 0 {
		age = week
	}
	if dedup == 0 {
		dedup = time.Hour
	}
	age = max(age, 0)
	if age > 0 {
		dedup = min(dedup, age)
	}
	return Stream{
		Name:         EventsStream(ns.Name),
		Description:  "a namespace's events",
		Subjects:     []string{EventsSubjects(ns.Name), RecordsSubjects(ns.Name)},
		MaxAge:       age,
		MaxBytes:     max(ns.Retention.MaxBytes, 0),
		Dedup:        dedup,
		MaxConsumers: maxEventsConsumers,
		AllowDirect:  true,
		AllowAtomic:  true,
		AllowTTL:     true,
	}
}

// Singles describes the streams that exist once.
func Singles() []Stream {
	return []Stream{{
		Name:         Attempts,
		Description:  "one message an attempt",
		Subjects:     []string{attemptsPrefix + ">"},
		MaxAge:       week,
		Dedup:        2 * time.Minute,
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		DenyDelete:   true,
		Again:        true,
	}, {
		Name:         DeadLetters,
		Description:  "one message a delivery that was given up",
		Subjects:     []string{DeadLettersSubjects()},
		MaxAge:       30 * day,
		Dedup:        2 * time.Minute,
		PerSubject:   1, // a delivery that is given up again has one dead letter, the later
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		Again:        true,
	}, {
		Name:         Ledger,
		Description:  "who changed what, one message a change",
		Subjects:     []string{ledgerPrefix + ">"},
		MaxAge:       ledgerAge,
		Dedup:        2 * time.Minute,
		MaxConsumers: maxConsumers,
		DenyDelete:   true,
		DenyPurge:    true,
		RefuseFull:   true,
	}}
}

// Buckets describes the buckets.
func Buckets() []Bucket { return append(workBuckets(), ruleBuckets()...) }

// workBuckets describes what there is to be done, and how far it has come.
func workBuckets() []Bucket {
	return []Bucket{{
		Name:         Namespaces,
		Description:  "namespaces, by name",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Subscriptions,
		Description:  "subscriptions, by id",
		History:      1, // more would keep secrets that were rotated out
		MaxConsumers: maxConsumers,
	}, {
		Name:         Told,
		Description:  "which change was told last, by subscription or namespace",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Answers,
		Description:  "what requests with an Idempotency-Key were answered, by hash; sealed",
		History:      1,
		TTL:          24 * time.Hour,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		MaxMsgs:      100_000,
		Again:        true,
	}, {
		Name:         Reservations,
		Description:  "which subscription holds an idempotency key or a configuration, by hash",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Lanes,
		Description:  "parked lanes: a record exists while a lane waits for its next attempt",
		History:      1,
		MarkerTTL:    time.Hour, // there are as many as there ever were troubled paths
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Replays,
		Description:  "replays, by subscription and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Leases,
		Description:  "who works on what: a key expires unless its holder renews it",
		History:      1,           // with more, the markers' TTL would be the least TTL of a key
		TTL:          time.Hour,   // of a lease that was written without one
		MarkerTTL:    time.Minute, // a watcher sees the expiry; a successor has no need of it
		MaxConsumers: maxConsumers,
		Again:        true,
	}}
}

// ruleBuckets describes who may do what and what things are like, and who is woken.
func ruleBuckets() []Bucket {
	return []Bucket{{
		Name:         Access,
		Description:  "who may do what: grants, access lists, clearances, labels, tombstones",
		History:      1,
		MarkerTTL:    time.Hour, // replicas' presences expire
		MaxConsumers: maxConsumers,
	}, {
		Name:         Keys,
		Description:  "the server's signing keys, by key id",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Unsafe,
		Description:  "producers whose events came of themselves, until somebody clears them",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Wakes,
		Description:  "wake consumers, by subscription and path",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxEventsConsumers, // who serves a wake subscription reads its consumers
	}, {
		Name:         EventTypes,
		Description:  "event types, by namespace and type",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Scheduled,
		Description:  "events that are stored at a time, by namespace and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Instructions,
		Description:  "what is done at a time or on a condition, by kind, namespace and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Watches,
		Description:  "how far watches have come, and what they remember, by namespace and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         StreamWakes,
		Description:  "subscriptions of the Durable Streams protocol, by namespace and a hash",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}}
}

// ackWait is how long a delivery may be worked on without a sign of life.
const ackWait = 30 * time.Second

// lettersPending is how many dead letters are being told at once.
const lettersPending = 100

// LettersConsumer describes the consumer that all replicas tell dead letters from: those that are buried once it is there.
func LettersConsumer() Consumer {
	return Consumer{
		Name:        "announcer",
		Stream:      DeadLetters,
		Description: "tells of dead letters",
		Filter:      Filter{Subject: DeadLettersSubjects(), Exact: true},
		AckWait:     ackWait,
		MaxPending:  lettersPending,
		MaxDeliver:  -1,
	}
}

// PushConsumers describes the consumers of a subscription, one for each filter subject
// of its pattern. If its lane is all of its events there is one.
func PushConsumers(sub *sluice.Subscription) []Consumer {
	filters := Filters(sub.Namespace, sub.Pattern)
	if sub.Policy.Ordering == sluice.OrderAll {
		filters = []Filter{Superset(sub.Namespace, sub.Pattern)}
	}
	consumers := make([]Consumer, len(filters))
	for i, name := range Consumers(sub.ID, len(filters)) {
		consumers[i] = Consumer{
			Name:        name,
			Stream:      EventsStream(sub.Namespace),
			Description: string(sub.Mode) + " " + string(sub.Pattern),
			Filter:      filters[i],
			Start:       sub.From,
			AckWait:     ackWait,
			MaxPending:  sub.Policy.Window,
			MaxDeliver:  -1,
			HeadersOnly: sub.Mode == sluice.Wake, // that there is something is enough
		}
	}
	return consumers
}
