package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/integrity"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// openMemory compares the store with its last known state.
func (s *server) openMemory(ctx context.Context) error {
	s.memory = integrity.New(s.cfg.Data, s.store, s.deliveries.Had, s.opts.Log)
	s.memory.Found, s.memory.Missed, s.memory.Remade = s.tellDamage, s.missed, s.remade
	s.verification = integrity.NewVerification(s.memory)
	return s.memory.Examine(ctx)
}

// tellDamage records damage in the ledger and publishes it in the namespace's log.
func (s *server) tellDamage(ctx context.Context, found []sluice.Damage) {
	for _, d := range found {
		s.ledger.Note(ctx, nil, ledger.Change{
			Actor: sluice.ActorSystem, Action: sluice.ActionStorageDamage, Namespace: d.Namespace, Resource: strings.TrimSuffix(d.Stream+"/"+d.Key, "/"), New: d,
		})
		s.announce.Damaged(ctx, d)
	}
}

// missed creates a dead letter for each subscription and each unreadable range of its log, unless
// the subscription had received the events in it (decision 0029).
func (s *server) missed(ctx context.Context, owed []integrity.Owed) error {
	subs, err := s.store.Subscriptions().List(ctx)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		for _, d := range owed {
			from, to, ok := integrity.MissedBy(sub, d.Damage, d.Had[sub.ID])
			if !ok {
				continue
			}
			letter := sluice.DeadLetter{
				Subscription: sub.ID, Namespace: sub.Namespace, Seq: from, LastSeq: to, Path: d.Path,
				Reason: sluice.Unreadable, LastError: d.String(), At: time.Now().UTC(),
			}
			buried, err := s.attempts.BuryGap(ctx, sub, letter)
			if err != nil {
				return err
			}
			if buried {
				s.metrics.Buried(sub, letter.Reason)
				s.opts.Log.WarnContext(ctx, "events cannot be read that a subscription may not have got",
					slog.String("subscription", sub.ID), slog.Uint64("from", from), slog.Uint64("to", to))
			}
		}
	}
	return nil
}

// remade makes the components rewrite the content of a stream that was deleted and recreated.
func (s *server) remade(ctx context.Context, stream string) {
	if stream == streams.BucketStream(streams.Lanes) {
		s.engine.SaveLanes(ctx)
	}
}

// hold disables the subscriptions whose records are older than the last stored ones, because one
// may have been paused since. They stay disabled until they are resumed. Damage found by this start
// is recorded in the ledger.
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

const staleReason = "the store's files were damaged, and the subscription's last change is lost: check its settings, then resume it"
