// Package deliverystore keeps the course of a subscription's deliveries: the sources that hand them out, attempts, parked
// lanes, dead letters, replays, and how far each subscription has come.
package deliverystore

import (
	"sync"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Store keeps the course of deliveries. Its methods may be called at once.
type Store struct {
	core   *natsstore.Store
	log    *eventlog.Log
	shared Sharing

	expected expected
	reasons  reasons

	mu     sync.Mutex
	making map[string]chan struct{} // subscriptions whose consumers are being made; closed when they are
}

// Sharing is what the store has to know about the shared reader. The zero Sharing is none.
type Sharing struct {
	Shares   func(sub *sluice.Subscription) bool                    // whether a new subscription is served by it; nil: none is
	Standing func(sub *sluice.Subscription) (fanout.Standing, bool) // how one that this replica serves stands; nil: unknown
}

// Share sets the shared reader. It is called before the first use of the store.
func (s *Store) Share(shared Sharing) { s.shared = shared }

// New returns the store of deliveries of the logs on a connection. There is one for each connection: it has consumers made by one caller at
// a time.
func New(core *natsstore.Store, log *eventlog.Log) *Store {
	return &Store{core: core, log: log, making: map[string]chan struct{}{}}
}
