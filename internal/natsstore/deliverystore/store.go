// Package deliverystore keeps what becomes of a subscription's deliveries: the sources that hand them out, attempts, parked
// lanes, dead letters, replays, and how far each subscription has come.
package deliverystore

import (
	"sync"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// Store keeps what becomes of deliveries. Its methods may be called at once.
type Store struct {
	core *natsstore.Store

	mu     sync.Mutex
	making map[string]chan struct{} // subscriptions whose consumers are being made; closed when they are
}

// New returns the store of deliveries on a connection. There is one for each connection: it has consumers made by one caller at
// a time.
func New(core *natsstore.Store) *Store {
	return &Store{core: core, making: map[string]chan struct{}{}}
}
