package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeliveryGauges is a snapshot of the deliveries of one subscription in this process.
type DeliveryGauges struct {
	Namespace    string
	Subscription string
	InFlight     int // attempts
	Buffered     int // events fetched and not settled
	Parked       int // lanes
	HeldLanes    int // held among the parked lanes
	Due          int // parked lanes with another attempt within an hour
	Breaker      sluice.Breaker
	Failing      bool          // every attempt has failed for some time
	Unopened     bool          // its source could not be opened at the last try, so nothing is delivered
	Lag          time.Duration // age of the oldest event that is buffered or parked
}

// WakeGauges is a snapshot of the consumers of one wake subscription in this process.
type WakeGauges struct {
	Namespace    string
	Subscription string
	Consumers    map[sluice.WakeState]int
	Notices      int // in flight
}

// WatchGauges is a snapshot of one watch, in the process that runs it.
type WatchGauges struct {
	Namespace string
	Watch     string
	Lag       time.Duration // age of the event in evaluation; 0: it has caught up
}

// MirrorGauges is a snapshot of one mirror, in the process that syncs it.
type MirrorGauges struct {
	Namespace  string
	Mirror     string
	State      sluice.SyncState
	Known      bool // the lag is known; false until the first sync in this process
	LagItems   uint64
	LagSeconds float64
}

// FeedGauges is the use of a server's resources by feeds.
type FeedGauges struct {
	Feeds     int    // open now
	Missed    uint64 // frames missed by readers since the start
	Refused   uint64 // feeds refused since the start because of the limits
	Rings     int    // namespaces with a ring
	RingBytes int    // bytes of all rings
}

// KnowledgeGauges are figures of the enrichment of a namespace on this replica.
type KnowledgeGauges struct {
	Namespace string
	Status    sluice.EnrichmentStatus
}

// ReplayGauges is a snapshot of the replays of one subscription that this process runs.
type ReplayGauges struct {
	Namespace    string
	Subscription string
	Running      int
	Ratio        float64 // progress of the replay that is least far, from 0 to 1
}

// DeadLetterGauges is the number of stored dead letters.
type DeadLetterGauges struct {
	Total uint64
	Of    []SubscriptionLetters // nil: too many subscriptions to count each
}

// Created returns when the subscription with an ID was created in a namespace; false if there is
// none.
type Created func(namespace, id string) (at time.Time, exists bool)

// SubscriptionLetters is the number of stored dead letters of one subscription.
type SubscriptionLetters struct {
	Namespace    string
	Subscription string
	Letters      uint64
}

// NATSGauges is the state of the connection to NATS.
type NATSGauges struct {
	Connected  bool
	Reconnects uint64        // since the start
	RoundTrip  time.Duration // of a ping; 0: not connected, or no answer
}

// Served is an HTTP request that has ended.
type Served struct {
	Method string
	Route  string // pattern of the route, such as /v1/subscriptions/:id; Unrouted if there is none
	Status int
	Took   time.Duration
	Waits  bool // it follows or polls for news, so its duration is meaningless
}

// Labels of requests that match no route or use an unusual method, so that the number of labels is
// bounded.
const (
	Unrouted = "unmatched"
	Other    = "other"
)
