package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// sweepEvery is the maximum delay with which an idle subscription ends after its grant.
const sweepEvery = 15 * time.Second

// leaveLimit limits the announcement that this replica leaves.
const leaveLimit = 2 * time.Second

// trust groups the authorization components.
type trust struct {
	index     *authz.Index
	records   records.Access
	authority *grants.Authority
	presence  *grants.Presence
	follower  *grants.Follower
}

func (s *server) openTrust(ctx context.Context) error {
	id, err := datadir.ReplicaID(s.cfg.Data)
	if err != nil {
		return err
	}
	tickets, err := s.store.KeysFor(ctx, sluice.UseFeed)
	if err != nil {
		return err
	}
	s.ticketKeys.Set(tickets)
	t := &s.trust
	t.records = records.NewAccess(s.store, s.memory.OfBucket(streams.Access))
	t.presence = grants.NewPresence(id, t.records, t.index, s.store.LeaseTTL(), s.opts.Log)
	t.authority = grants.New(grants.Deps{
		Records: t.records, Index: t.index, Ledger: s.ledger, Keys: s.tokenKeys, Now: time.Now, Tickets: s.ticketKeys.All,
	})
	t.follower = &grants.Follower{Index: t.index, Presence: t.presence, Cancel: s.registry, Forget: t.records, Now: time.Now, Log: s.opts.Log}
	return nil
}

// tokenKeys returns the keys that sign tokens.
func (s *server) tokenKeys(ctx context.Context) ([]grants.Key, error) {
	stored, err := s.store.KeysFor(ctx, sluice.UseGrant)
	if err != nil {
		return nil, err
	}
	keys := make([]grants.Key, len(stored))
	for i, k := range stored {
		keys[i] = grants.Key{ID: k.ID, Private: k.Private()}
	}
	return keys, nil
}

// ready returns an error if requests cannot be served.
func (s *server) ready(ctx context.Context) error {
	if err := s.room.Whole(); err != nil {
		return err
	}
	if err := s.store.Ready(ctx); err != nil {
		return err
	}
	if err := s.memory.Ready(); err != nil {
		return err
	}
	return s.trust.index.Ready(time.Now())
}

// know passes a subscription to the follower of the access index.
func (s *server) know(id string, sub *sluice.Subscription) { s.trust.follower.Know(id, sub) }

// run keeps the index in step with the records until ctx is done.
func (t *trust) run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { t.presence.Run(ctx) })
	parts.Go(func() { t.follower.Run(ctx, sweepEvery) })
	return t.records.FollowTo(ctx, t.follower)
}

// leave announces that this replica no longer makes access decisions.
func (t *trust) leave(ctx context.Context, log *slog.Logger) {
	limit, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	t.presence.Leave(limit)
	log.DebugContext(ctx, "access left")
}
