// Package deliverystore stores the state of deliveries: attempts, parked lanes, dead letters,
// replays, and the progress of each subscription. It also has the sources of deliveries.
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

	mu     sync.Mutex
	making map[string]chan struct{} // subscriptions whose consumers are being created; the channel is closed when that is done
}

// Sharing contains the functions of the shared reader that the store needs. The zero value means
// that there is no shared reader.
type Sharing struct {
	Shares   func(sub *sluice.Subscription) bool                    // whether the shared reader serves a new subscription; nil: it serves none
	Standing func(sub *sluice.Subscription) (fanout.Standing, bool) // the progress of a subscription that this replica serves; nil: unknown
}

// Share sets the shared reader. It must be called before the first use of the store.
func (s *Store) Share(shared Sharing) { s.shared = shared }

// New returns the store of the deliveries of a log. There must be only one for each connection,
// because it serializes the creation of consumers.
func New(core *natsstore.Store, log *eventlog.Log) *Store {
	return &Store{core: core, log: log, making: map[string]chan struct{}{}}
}
