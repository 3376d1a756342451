// Package streamstore has operations on whole streams: counts, verification of every message,
// advancing, renaming, snapshots.
package streamstore

import "github.com/sluice-io/sluice/internal/natsstore"

// Store has operations on whole streams of a store. Its methods may be called concurrently.
type Store struct{ core *natsstore.Store }

// New returns the streams on a connection.
func New(core *natsstore.Store) *Store { return &Store{core} }
