// Package streamstore works on whole streams: how far they have come, verification of every message, advancing, snapshots.
package streamstore

import "github.com/sluice-io/sluice/internal/natsstore"

// Store works on the streams of a store. Its methods may be called at once.
type Store struct{ core *natsstore.Store }

// New returns the streams on a connection.
func New(core *natsstore.Store) *Store { return &Store{core} }
