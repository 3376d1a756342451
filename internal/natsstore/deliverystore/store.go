// Package deliverystore keeps the course of a subscription's deliveries: the sources that hand them out, attempts, parked
// lanes, dead letters, replays, and how far each subscription has come.
package deliverystore

import (
	"sync"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
)

// Store keeps the course of deliveries. Its methods may be called at once.
type Store struct {
	core *natsstore.Store
	log  *eventlog.Log

	mu     sync.Mutex
	making map[string]chan struct{} // subscriptions whose consumers are being made; closed when they are
}

// New returns the store of deliveries of the logs on a connection. There is one for each connection: it has consumers made by one caller at
// a time.
func New(core *natsstore.Store, log *eventlog.Log) *Store {
	return &Store{core: core, log: log, making: map[string]chan struct{}{}}
}
