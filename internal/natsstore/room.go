package natsstore

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// RefusesAll reports whether NATS has no room for a message of any stream: neither the server nor the account tells before. It
// stores an empty message in the place of the one before, which readers of the bucket take for a record that is gone.
func (s *Store) RefusesAll(ctx context.Context) bool {
	msg := nats.NewMsg(s.WriteSubject(s.names.KeySubject(streams.Leases, "=moved")))
	msg.Header.Set("KV-Operation", "PURGE")
	_, err := s.js.PublishMsg(ctx, msg)
	return sluice.IsFull(StoreError(ctx, s.crowded(err)))
}
