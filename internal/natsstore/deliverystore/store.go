// Package deliverystore stores the state of deliveries: attempts, parked lanes, dead letters,
// replays, and the progress of each subscription. It also has the sources of deliveries.
//
// The messages and records of a subscription s1 in the namespace shop, without a prefix:
//
//	stream ATTEMPTS     attempts.shop.s1          a block: attempts in JSON, one a line (0041)
//	stream DEADLETTERS  dead.shop.s1.<…>          a dead letter; one for each delivery
//	bucket lanes        s1.p.<path>               a parked lane with ordering path; s1.e.<seq> with
//	                                              none, s1.a with all
//	                    =lookout.s1               up to where its events are accounted for
//	                    =health.s1                its breaker and problems; none: healthy
//	                    =cursor.shop.<shard>      the cursor of the shared reader
//	                    =replay.r1.p.<path>       a parked lane of the replay r1
//	bucket replays      s1.r1                     a replay
//
// A record of a subscription has its start (Began or CreatedAt), because an ID can be used again
// after the subscription was deleted: readers ignore, or delete, records with another start.
//
// A mark of a lookout, for one consumer:
//
//	── settled or parked ──┬── delivered, partly settled ──┬── not delivered ──► the log
//	                     Floor   Open: first not settled   Next: the first wanted event
//
// Without a Next, nothing up to Seen is wanted and unaccounted for: the next look begins there.
//
// If the event at Open or Next is no longer in the log and was not settled, it is lost, and becomes
// a dead letter (decision 0003).
package deliverystore

import (
	"sync"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Store stores the state of deliveries. Its methods may be called concurrently.
type Store struct {
	core   *natsstore.Store
	log    *eventlog.Log
	shared Sharing

	expected expected
	reasons  reasons
	unmixed  unmixed

	unrecorded unrecorded

	mu     sync.Mutex
	making map[string]chan struct{} // subscriptions whose consumers are being created; the channel is closed when that is done
}

// Sharing contains the functions of the shared reader that the store needs. The zero value means
// that there is no shared reader. The functions are called concurrently, and must not block.
type Sharing struct {
	Shares   func(sub *sluice.Subscription) bool                    // whether the shared reader serves a new subscription; nil: it serves none
	Standing func(sub *sluice.Subscription) (fanout.Standing, bool) // the progress of a subscription that this replica serves; nil: unknown
	Holding  func() (then, still func(key string) bool)             // the leases of this replica, as natsstore.Leases.Holding; required with Shares
}

// Share sets the shared reader. It must be called before the first use of the store.
func (s *Store) Share(shared Sharing) { s.shared = shared }

// New returns the store of the deliveries of a log. There must be only one for each connection,
// because it serializes the creation of consumers.
func New(core *natsstore.Store, log *eventlog.Log) *Store {
	return &Store{core: core, log: log, making: map[string]chan struct{}{}, unrecorded: unrecorded{of: map[string]*backlog{}}}
}
