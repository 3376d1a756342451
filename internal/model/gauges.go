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
	Held         int // events fetched and not settled
	Parked       int // lanes
	HeldLanes    int // held among the parked lanes
	Breaker      sluice.Breaker
	Unopened     bool          // its source could not be opened the last time: nothing is delivered
	Lag          time.Duration // age of the oldest event that is held or parked
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
	Known      bool // how far it has come; false until the first sync of this process
	LagItems   uint64
	LagSeconds float64
}

// FeedGauges is the use of a server's resources by feeds.
type FeedGauges struct {
	Feeds     int    // open now
	Missed    uint64 // frames missed by readers since the start
	Refused   uint64 // feeds refused since the start because of the limits
	Rings     int    // namespaces with a ring
	RingBytes int    // bytes of these
}

// KnowledgeGauges are figures of the enrichment of a namespace on this replica.
type KnowledgeGauges struct {
	Namespace string
	Status    sluice.EnrichmentStatus
}
