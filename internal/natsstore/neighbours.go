package natsstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/streams"
)

// Neighbours returns the prefixes of other Sluice installations with data in the account, "" for
// one without a prefix, if this store has no data: its prefix may be a mistake. It returns nil if
// this store has data, or if there are none.
func (s *Store) Neighbours(ctx context.Context) (prefixes []string, err error) {
	own := s.names.Ledger()
	for _, subject := range streams.AnyLedger() {
		list := s.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range list.Name() {
			if name == own {
				return nil, nil
			}
			if prefix, ok := streams.LedgerPrefix(name); ok {
				prefixes = append(prefixes, prefix)
			}
		}
		if err := list.Err(); err != nil {
			return nil, fmt.Errorf("list streams: %w", StoreError(ctx, err))
		}
	}
	return prefixes, nil
}
