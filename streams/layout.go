package streams

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	day  = 24 * time.Hour
	week = 7 * day

	// ledgerAge is 400 days, so that an investigation finds the whole previous year. The required
	// minimum is 180 days.
	ledgerAge = 400 * day
)

// Consumer limits. JetStream limits a stream to 1,000 consumers by default. The readers of a bucket
// count as consumers; an events stream has one or two per subscription.
const (
	maxEventsConsumers = 20_000
	maxConsumers       = 1_000
)

// Stream describes a stream. It is stored in files, and has the retention policy limits, which
// discards the oldest messages first.
type Stream struct {
	Name         string
	Description  string
	Subjects     []string
	MaxAge       time.Duration // 0: unlimited
	MaxBytes     int64         // 0: unlimited
	Dedup        time.Duration // window in which a Nats-Msg-Id is stored once; at most MaxAge
	PerSubject   int64         // number of messages kept per subject, newest first; 0: unlimited
	MaxConsumers int
	AllowDirect  bool // any replica answers reads: fast, but on a cluster possibly stale
	AllowAtomic  bool // batches are stored atomically
	AllowTTL     bool // Nats-TTL lets a message expire before MaxAge
	DenyDelete   bool // messages cannot be deleted individually; purging a subject remains possible
	DenyPurge    bool // messages cannot be purged
	// RefuseFull: at the size limit, the stream refuses new messages instead of discarding the
	// oldest.
	RefuseFull bool
	Again      bool // like Bucket.Again
}

// Bucket describes a key-value bucket, stored in files. Every read of a bucket leads to a decision,
// so the leader must answer it: AllowDirect is false for all buckets, unlike JetStream's default.
type Bucket struct {
	Name        string
	Description string
	History     int           // number of values kept per key
	TTL         time.Duration // 0: values are kept until they are deleted
	// How long a purged or expired key leaves a marker; 0: forever, and keys cannot have a TTL.
	MarkerTTL    time.Duration
	MaxConsumers int
	MaxMsgs      int64 // maximum number of keys, further ones are refused; 0: unlimited
	AllowDirect  bool

	// Again: a running server recreates the bucket, empty, after it was deleted. Such a bucket
	// holds no permissions, and no event of a log is undelivered without it. Other buckets stay
	// missing until an operator restores or abandons their content.
	Again bool
}

// Consumer describes a durable pull consumer with explicit acknowledgement. It has no BackOff and
// no delivery limit: retries are parked lanes, never negative acknowledgements.
type Consumer struct {
	Name        string
	Stream      string
	Description string
	Filter      Filter
	Start       sluice.StartAt
	AckWait     time.Duration
	MaxPending  int // maximum number of unacknowledged deliveries
	HeadersOnly bool
	MaxDeliver  int // -1: no limit
}

// Events describes a namespace's stream. The defaults are a retention of a week and a dedup window
// of an hour.
func (n Names) Events(ns sluice.Namespace) Stream {
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
		Name:         n.EventsStream(ns.Name),
		Description:  "events of the namespace " + ns.Name,
		Subjects:     []string{n.EventsSubjects(ns.Name), n.RecordsSubjects(ns.Name)},
		MaxAge:       age,
		MaxBytes:     max(ns.Retention.MaxBytes, 0),
		Dedup:        dedup,
		MaxConsumers: maxEventsConsumers,
		AllowDirect:  true,
		AllowAtomic:  true,
		AllowTTL:     true,
	}
}

// Singles describes the streams that exist once per server.
func (n Names) Singles() []Stream {
	return []Stream{{
		Name:         n.Attempts(),
		Description:  "attempts: a line each, up to 64 of a subscription in a message",
		Subjects:     []string{n.dot + attemptsPrefix + ">"},
		MaxAge:       week,
		Dedup:        2 * time.Minute,
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		DenyDelete:   true,
		Again:        true,
	}, {
		Name:         n.DeadLetters(),
		Description:  "one message per delivery that failed for good",
		Subjects:     []string{n.DeadLettersSubjects()},
		MaxAge:       30 * day,
		Dedup:        2 * time.Minute,
		PerSubject:   1, // a delivery that fails again has one dead letter, the later one
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		Again:        true,
	}, {
		Name:         n.Ledger(),
		Description:  "the ledger, one message per change",
		Subjects:     []string{n.dot + ledgerPrefix + ">"},
		MaxAge:       ledgerAge,
		Dedup:        2 * time.Minute,
		MaxConsumers: maxConsumers,
		DenyDelete:   true,
		DenyPurge:    true,
		RefuseFull:   true,
	}, {
		Name:         n.Mirror(),
		Description:  "mirrored entries, and how far each mirror has come",
		Subjects:     []string{n.dot + mirrorPrefix + ">"},
		Dedup:        2 * time.Minute,
		PerSubject:   1,
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		AllowAtomic:  true,
		AllowTTL:     true, // for tombstones
		RefuseFull:   true, // otherwise old entries would be discarded without notice
		Again:        true, // a mirror without its place starts from the beginning
	}, {
		Name:         n.Knowledge(),
		Description:  "embeddings and comparisons, with the states of their jobs",
		Subjects:     []string{n.dot + knowledgePrefix + ">"},
		Dedup:        2 * time.Minute,
		PerSubject:   1,
		MaxConsumers: maxConsumers,
		AllowDirect:  true,
		AllowTTL:     true, // for jobs that failed together with their mirror
		RefuseFull:   true, // otherwise results would be discarded without notice
		Again:        true, // missing results are computed again
	}}
}

// Buckets describes the buckets.
func Buckets() []Bucket {
	return slices.Concat(workBuckets(), watchBuckets(), ruleBuckets(), mirrorBuckets())
}

// mirrorBuckets describes the buckets of mirrors, and buckets that were added later.
func mirrorBuckets() []Bucket {
	return []Bucket{{
		Name:         Mirrors,
		Description:  "mirrors, by id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Credentials,
		Description:  "tokens for the sources of mirrors, by id; sealed",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         TrustedKeys,
		Description:  "public keys that sign bundles, by namespace that imports them",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Enrichments,
		Description:  "enrichment of entries, by namespace",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Modules,
		Description:  "approvals of modules, by name",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:         PortalLinks,
		Description:  "links to the portal, by hashes of their principal and code",
		History:      1,
		TTL:          time.Hour,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		MaxMsgs:      100_000,
		Again:        true,
	}}
}

// workBuckets describes the buckets of pending work and its progress.
func workBuckets() []Bucket {
	return []Bucket{{
		Name:         Namespaces,
		Description:  "namespaces, by name",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Subscriptions,
		Description:  "subscriptions, by id",
		History:      1, // a longer history would keep rotated secrets
		MaxConsumers: maxConsumers,
	}, {
		Name:         Told,
		Description:  "the last change with a published system event, by subscription or namespace",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Answers,
		Description:  "responses to requests with an Idempotency-Key, by hash; sealed",
		History:      1,
		TTL:          24 * time.Hour,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		MaxMsgs:      100_000,
		Again:        true,
	}, {
		Name:         Reservations,
		Description:  "subscription by idempotency key or configuration, by hash",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Lanes,
		Description:  "parked lanes: a record exists while a lane waits for its next attempt",
		History:      1,
		MarkerTTL:    time.Hour, // the number of keys is the number of paths that ever had problems
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
		Description:  "leases: a key expires unless its holder renews it",
		History:      1,           // with more, the markers' TTL would be the minimum TTL of a key
		TTL:          time.Hour,   // for leases without a TTL of their own
		MarkerTTL:    time.Minute, // a watcher sees the expiry; a successor does not need it
		MaxConsumers: maxConsumers,
		Again:        true,
	}}
}

// watchBuckets describes the buckets with information about deliveries for people.
func watchBuckets() []Bucket {
	return []Bucket{{
		Name:         Problems,
		Description:  "failures of deliveries by subscription and class, with what operators say of them",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Rollups,
		Description:  "attempts of each subscription by minute and by five minutes, in blocks of each replica",
		History:      1,
		TTL:          27 * time.Hour, // of a block without a TTL of its own
		MarkerTTL:    time.Minute,
		MaxConsumers: maxConsumers,
		Again:        true,
	}}
}

// ruleBuckets describes the buckets of permissions, definitions and wakes.
func ruleBuckets() []Bucket {
	return []Bucket{{
		Name:         Access,
		Description:  "permissions: grants, access lists, clearances, labels, tombstones",
		History:      1,
		MarkerTTL:    time.Hour, // because the presence records of replicas expire
		MaxConsumers: maxConsumers,
	}, {
		Name:         Keys,
		Description:  "the server's signing keys, by key id",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Unsafe,
		Description:  "unsafe producers, until an operator clears them",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
	}, {
		Name:        Wakes,
		Description: "wake consumers, by subscription and path",
		History:     1,
		MarkerTTL:   time.Hour,
		// Each replica that serves a wake subscription reads its consumers.
		MaxConsumers: maxEventsConsumers,
	}, {
		Name:         EventTypes,
		Description:  "event types, by namespace and type",
		History:      1,
		MaxConsumers: maxConsumers,
	}, {
		Name:         Scheduled,
		Description:  "scheduled events, by namespace and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Instructions,
		Description:  "appointments and watches, by kind, namespace and id",
		History:      1,
		MarkerTTL:    time.Hour,
		MaxConsumers: maxConsumers,
		Again:        true,
	}, {
		Name:         Watches,
		Description:  "progress and memory of watches, by namespace and id",
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

// ackWait is how long a delivery may be in progress without a sign of life.
const ackWait = 30 * time.Second

// lettersPending is the maximum number of dead letters that are published at once.
const lettersPending = 100

// LettersConsumer describes the consumer through which all replicas read dead letters to publish
// them. It delivers the dead letters that are stored after its creation.
func (n Names) LettersConsumer() Consumer {
	return Consumer{
		Name:        "announcer",
		Stream:      n.DeadLetters(),
		Description: "publishes system events of dead letters",
		Filter:      Filter{Subject: n.DeadLettersSubjects(), Exact: true},
		AckWait:     ackWait,
		MaxPending:  lettersPending,
		MaxDeliver:  -1,
	}
}

// PushFilters returns the filter subjects of a subscription's consumers, or of the shared reader
// that replaces them.
func (n Names) PushFilters(sub *sluice.Subscription) []string {
	consumers := n.PushConsumers(sub)
	filters := make([]string, len(consumers))
	for i, c := range consumers {
		filters[i] = c.Filter.Subject
	}
	return filters
}

// PushConsumers describes the consumers of a subscription, one per filter subject of its pattern. A
// subscription with a single lane has one consumer.
func (n Names) PushConsumers(sub *sluice.Subscription) []Consumer {
	filters := n.Filters(sub.Namespace, sub.Pattern)
	if sub.Policy.Ordering == sluice.OrderAll {
		filters = []Filter{n.Superset(sub.Namespace, sub.Pattern)}
	}
	consumers := make([]Consumer, len(filters))
	for i, name := range Consumers(sub.ID, len(filters)) {
		consumers[i] = Consumer{
			Name:        name,
			Stream:      n.EventsStream(sub.Namespace),
			Description: "subscription " + sub.ID + ": " + string(sub.Mode) + " " + string(sub.Pattern),
			Filter:      filters[i],
			Start:       sub.From,
			AckWait:     ackWait,
			MaxPending:  sub.Policy.MaxPending(),
			MaxDeliver:  -1,
			HeadersOnly: sub.Mode == sluice.Wake, // the existence of the event is enough
		}
	}
	return consumers
}
