package natsstore

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// RefusesAll reports whether NATS has no space for a message of any stream, which neither the
// server nor the account reports in advance. It stores an empty message in place of the previous
// one, which readers of the bucket treat as a deleted record. It also returns false if NATS does
// not answer. Each call replaces one message in the store, so call it rarely.
func (s *Store) RefusesAll(ctx context.Context) bool {
	msg := nats.NewMsg(s.WriteSubject(s.names.KeySubject(streams.Leases, "=moved")))
	msg.Header.Set("KV-Operation", "PURGE")
	_, err := s.js.PublishMsg(ctx, msg)
	return sluice.IsFull(StoreError(ctx, s.crowded(err)))
}
