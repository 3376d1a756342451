package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// sweepEvery is the maximum delay with which an idle subscription ends after its grant.
const sweepEvery = 15 * time.Second

// trust groups the authorization components.
type trust struct {
	index     *authz.Index
	records   natsstore.Bucket[authz.Record]
	authority *grants.Authority
	presence  *grants.Presence
	follower  *grants.Follower
	damaged   map[string]sluice.Damage // damaged records, by key
}

func (s *server) openTrust(ctx context.Context) error {
	id, err := replicaID(s.cfg.Data)
	if err != nil {
		return err
	}
	tickets, err := s.store.KeysFor(ctx, sluice.UseFeed)
	if err != nil {
		return err
	}
	s.ticketKeys.Set(tickets)
	t := &s.trust
	t.records = natsstore.OpenBucket[authz.Record](s.store, streams.Access)
	t.damaged = s.memory.OfBucket(streams.Access)
	t.presence = grants.NewPresence(id, t.records, t.index, s.store.LeaseTTL(), s.opts.Log)
	t.authority = grants.New(grants.Needs{
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

// follow keeps the index in step with the records until ctx is done.
func (t *trust) follow(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { t.presence.Run(ctx) })
	parts.Go(func() { t.follower.Run(ctx, sweepEvery) })
	told := map[string]bool{}
	return t.records.Watch(ctx, ">", func(e natsstore.Entry[authz.Record]) {
		switch e.Change {
		case natsstore.Set:
			told[e.Key] = true
			t.follower.Set(ctx, e.Key, trustedRecord(t.damaged, e), e.Revision)
		case natsstore.Removed:
			t.follower.Remove(e.Key, e.Revision)
		case natsstore.CaughtUp:
			for key, d := range t.damaged {
				if !told[key] { // the record is lost or unreadable
					t.follower.Set(ctx, key, authz.Record{Unreadable: true}, d.From)
				}
			}
			t.follower.CaughtUp()
		}
	})
}

// leave announces that this replica no longer makes access decisions.
func (t *trust) leave(ctx context.Context, log *slog.Logger) {
	limit, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	t.presence.Leave(limit)
	log.DebugContext(ctx, "access left")
}

// tombstones erases paths.
type tombstones struct {
	store *natsstore.Store
	trust *trust
}

// Entomb blocks everything on the path from being sent, and then deletes it.
func (t tombstones) Entomb(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path) (sluice.Tombstone, error) {
	last, err := t.store.LastSeq(ctx, namespace)
	if err != nil {
		return sluice.Tombstone{}, err
	}
	stone, err := t.trust.authority.Entomb(ctx, by, namespace, path, last)
	if err != nil {
		return stone, err
	}
	return stone, t.store.PurgePath(ctx, namespace, path, stone.UpTo)
}

// Tombstones returns the tombstones of a namespace, by path.
func (t tombstones) Tombstones(namespace string) []sluice.Tombstone {
	all := []sluice.Tombstone{}
	for _, r := range t.trust.index.Records(func(r authz.Record) bool {
		return r.Tombstone != nil && r.Tombstone.Namespace == namespace && r.Tombstone.UpTo > 0
	}) {
		all = append(all, *r.Tombstone)
	}
	slices.SortFunc(all, func(a, b sluice.Tombstone) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return all
}
