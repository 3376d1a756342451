package app

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/internal/access"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/stored"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// openMemory compares what is stored with what is remembered of it.
func (s *server) openMemory(ctx context.Context) error {
	s.memory = stored.New(s.cfg.Data, s.store, s.opts.Log)
	s.memory.Found, s.memory.Remade = s.tellDamage, s.remade
	s.verification = stored.NewVerification(s.memory)
	return s.memory.Examine(ctx)
}

// tellDamage enters damage in the ledger and tells of it in the namespace's log.
func (s *server) tellDamage(ctx context.Context, found []sluice.Damage) {
	for _, d := range found {
		s.ledger.Note(ctx, nil, ledger.Change{
			Actor: sluice.ActorSystem, Action: sluice.ActionStorageDamage, Namespace: d.Namespace, Resource: strings.TrimSuffix(d.Stream+"/"+d.Key, "/"), New: d,
		})
		s.announce.Damaged(ctx, d)
	}
}

// remade has the parts write again what a stream held that was deleted and made again.
func (s *server) remade(ctx context.Context, stream string) {
	if stream == streams.BucketStream(streams.Lanes) {
		s.engine.SaveLanes(ctx)
	}
}

// hold disables the subscriptions whose records are older than what was stored last: one may have been paused since. They
// stay so until they are resumed. What this start found is entered in the ledger.
func (s *server) hold(ctx context.Context) error {
	s.tellDamage(ctx, s.memory.Fresh())
	for id, d := range s.memory.OfBucket(streams.Subscriptions) {
		if d.Kind != sluice.DamageStale {
			continue
		}
		_, revision, err := s.store.Subscriptions().Get(ctx, id)
		if sluice.CodeOf(err) == sluice.NotFound || err == nil && revision > d.To {
			continue // it was changed since
		}
		if err != nil {
			return err
		}
		if err := s.registry.Disable(ctx, id, staleReason); err != nil {
			return err
		}
	}
	return nil
}

const staleReason = "the store's files were damaged, and the subscription's last change is lost: look at its settings, then resume it"

// trustedRecord returns a record of access, or one that gives nothing and opens nothing if what is stored is older than what
// was stored last. What was stored after the damage is good.
func trustedRecord(damaged map[string]sluice.Damage, e natsstore.Entry[access.Record]) access.Record {
	if d, ok := damaged[e.Key]; ok && e.Revision <= d.To {
		return access.Record{Unreadable: true}
	}
	return e.Value
}
