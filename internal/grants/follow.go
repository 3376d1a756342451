package grants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// withdrawLimit limits one try to stop requests in flight.
const withdrawLimit = 10 * time.Second

// Withdrawer stops requests in flight. Withdraw is called with a limit, and again until it
// succeeds: it must be idempotent. touched is safe for concurrent use.
type Withdrawer interface {
	// Withdraw cancels requests in flight for the subscriptions, and returns when none of them can
	// leave any more.
	Withdraw(ctx context.Context, touched func(*sluice.Subscription) bool) error
}

// Revoker ends subscriptions whose owners have lost their access. Revoke is idempotent. A
// subscription that does not exist gives code SubscriptionMissing, which counts as success.
type Revoker interface {
	// Revoke ends a subscription. If it has another owner by now, Revoke does nothing and returns
	// false.
	Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error)
}

// Forgetter removes records.
type Forgetter interface {
	// Delete removes a record, of any revision if that is 0.
	Delete(ctx context.Context, key string, revision uint64) error
}

// kept is how long a grant is kept after its end, for later audits.
const kept = 30 * 24 * time.Hour

// keptSession is the same for sessions of the portal. It is shorter because the ledger has entries
// about them.
const keptSession = time.Hour

// Follower applies changes of the records to the index, and ends requests and subscriptions that
// the index no longer permits. The fields are set before the first call, and all are required. Set,
// Remove and CaughtUp are for one goroutine, in the order of the store. Know may be called by
// another one, and Run is one more. Every replica runs one, so the same subscription can be ended
// by several at once.
type Follower struct {
	Index    *authz.Index
	Presence *Presence
	Withdraw Withdrawer
	Revoker  Revoker
	Forget   Forgetter
	Now      func() time.Time
	Log      *slog.Logger

	mu      sync.Mutex
	bounded map[string]*sluice.Subscription // subscriptions of owners with revocable rights
}

// Set applies a stored record. When it returns, this replica sends nothing more under the rights
// that the record revoked. It blocks while requests in flight cannot be withdrawn, and until ctx is
// done: then the revision is settled nevertheless, because the replica is stopping.
//
// The order matters. The index changes first, so that no new request begins; then requests in
// flight end; then the revision counts as settled, which lets the call that stored the record
// return.
func (f *Follower) Set(ctx context.Context, key string, r authz.Record, revision uint64) {
	before := f.Index.Record(key)
	f.Index.Set(key, r, revision)
	if r.Replica != nil {
		f.Presence.seen(r.Replica.ID, revision)
		return
	}
	if touched := f.Index.Takes(before, r); touched != nil {
		f.stop(ctx, touched)
		f.sweep(ctx, touched)
	}
	f.Presence.settle(revision)
}

// Remove applies the removal of a record.
func (f *Follower) Remove(key string, revision uint64) { f.Index.Remove(key, revision) }

// CaughtUp marks that all stored records have been applied.
func (f *Follower) CaughtUp() { f.Index.CaughtUp() }

// stop repeats Withdraw until nothing is in flight. The change must not be acknowledged before
// that.
func (f *Follower) stop(ctx context.Context, touched authz.Touched) {
	for ctx.Err() == nil {
		limit, cancel := context.WithTimeout(ctx, withdrawLimit)
		err := f.Withdraw.Withdraw(limit, touched)
		cancel()
		if err == nil {
			return
		}
		f.Log.WarnContext(ctx, "revoked requests are still in flight", slog.Any("error", err))
	}
}

// Know applies a stored subscription; nil means that it was deleted. The follower keeps sub, which
// must not change any more. Subscriptions of root and cancelled ones are not kept.
func (f *Follower) Know(id string, sub *sluice.Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounded == nil {
		f.bounded = map[string]*sluice.Subscription{}
	}
	if sub == nil || authz.OwnerOf(sub).Unbounded() || sub.State == sluice.Cancelled {
		delete(f.bounded, id)
		return
	}
	f.bounded[id] = sub
}

// Run ends the subscriptions with expired grants at intervals, until ctx is done. Each tick also
// removes the records of grants that ended long ago. A failure is logged and left to the next tick.
func (f *Follower) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.sweep(ctx, func(*sluice.Subscription) bool { return true })
			f.forget(ctx)
		}
	}
}

// sweep ends the subscriptions of owners that lost all access to them (S0-64), even those without
// events to send, and on any replica. The next sweep finds failures again.
func (f *Follower) sweep(ctx context.Context, touched authz.Touched) {
	for _, sub := range f.lost(touched) {
		limit, cancel := context.WithTimeout(ctx, withdrawLimit)
		if _, err := f.Revoker.Revoke(limit, sub); err != nil && sluice.CodeOf(err) != sluice.SubscriptionMissing {
			f.Log.WarnContext(ctx, "access lost; not cancelled yet", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
		cancel()
	}
}

// forget removes the grants that ended long ago. To a caller, an unknown grant is the same as an
// ended one.
func (f *Follower) forget(ctx context.Context) {
	for _, key := range f.Index.Over(f.Now().Add(-kept), f.Now().Add(-keptSession)) {
		limit, cancel := context.WithTimeout(ctx, withdrawLimit)
		if err := f.Forget.Delete(limit, key, 0); err != nil {
			f.Log.WarnContext(ctx, "expired grant not removed", slog.String("key", key), slog.Any("error", err))
		}
		cancel()
	}
}

func (f *Follower) lost(touched authz.Touched) (lost []*sluice.Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	for _, sub := range f.bounded {
		if touched(sub) && f.Index.Holds(sub, now) == model.Lost {
			lost = append(lost, sub)
		}
	}
	return lost
}

// Expiring stores records with a TTL. A record that is not stored again within ttl disappears.
type Expiring interface {
	// PutFor stores a record unconditionally with a time to live, and returns its revision.
	PutFor(ctx context.Context, key string, record authz.Record, ttl time.Duration) (uint64, error)
}

// Presence announces that this replica is alive and the revision up to which it enforces the stored
// records. A replica that cannot announce this and read the announcement back must not decide,
// because others continue without it once its last announcement has expired. Its times relate to
// ttl as follows. The index decides for less than ttl, counted from before the request was sent, so
// that it stops before the store lets the record expire:
//
//	0          ttl/3        2/3 ttl      13/15 ttl   ttl
//	├────────────┼────────────┼──────────────┤         │
//	announced    again        again          index     record expires:
//	                                         stops     others do not wait
//
// A try may take 2/15 ttl; a failed one is repeated after ttl/15. The time counts only once the
// announcement has been read back, which proves that this replica has seen all records before it.
// It is safe for concurrent use.
type Presence struct {
	id      string
	records Expiring
	index   *authz.Index
	ttl     time.Duration
	log     *slog.Logger
	kick    chan struct{}

	mu       sync.Mutex
	settled  uint64
	sent     uint64    // revision of the last announcement
	sentAt   time.Time // a moment before it
	observed uint64    // revision of the last own announcement that was read back
}

// NewPresence returns the presence of a replica; its index decides nothing before Run. The id is
// unique among the replicas and constant while the process runs.
func NewPresence(id string, records Expiring, index *authz.Index, ttl time.Duration, log *slog.Logger) *Presence {
	index.Until(time.Time{})
	return &Presence{id: id, records: records, index: index, ttl: ttl, log: log, kick: make(chan struct{}, 1)}
}

// Run announces the presence until ctx is done. It also announces at once after every change that
// settled. It must be called once.
func (p *Presence) Run(ctx context.Context) {
	tick := time.NewTicker(p.ttl / 3) // two announcements may fail
	defer tick.Stop()
	level := slog.LevelWarn // the first of consecutive failures is a warning
	for {
		err := p.say(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			level = slog.LevelWarn
			tick.Reset(p.ttl / 3)
		default:
			p.log.Log(ctx, level, "access: presence of this replica not recorded; retrying", slog.Any("error", err))
			level = slog.LevelDebug
			tick.Reset(p.ttl / 15) // writes fail while the cluster elects a leader
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.kick:
		}
	}
}

// Leave removes the presence: other replicas need not wait for this one. Call it after Run has
// returned. From then on, the index decides nothing. A failure is only logged, and costs the others
// a wait until the last announcement expires.
func (p *Presence) Leave(ctx context.Context) {
	p.index.Until(time.Time{})
	if _, err := p.records.PutFor(ctx, streams.PresenceKey(p.id), authz.Record{}, time.Second); err != nil {
		p.log.DebugContext(ctx, "presence record not removed", slog.Any("error", err)) // it expires
	}
}

// say announces once. It returns an error if that was not stored.
func (p *Presence) say(ctx context.Context) error {
	p.mu.Lock()
	r := authz.Record{Replica: &authz.Presence{ID: p.id, Settled: p.settled}}
	p.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, p.ttl*2/15)
	defer cancel()
	began := time.Now()
	revision, err := p.records.PutFor(limit, streams.PresenceKey(p.id), r, p.ttl)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent, p.sentAt = revision, began
	p.confirm()
	return nil
}

// seen notes a presence record. If it is this replica's own, the replica has also seen all records
// that were stored before.
func (p *Presence) seen(id string, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == p.id {
		p.observed = max(p.observed, revision)
		p.confirm()
	}
}

// confirm extends the time until which the index may decide. It ends a little before others stop
// waiting for this replica.
func (p *Presence) confirm() {
	if p.sent > 0 && p.observed >= p.sent {
		p.index.Until(p.sentAt.Add(p.ttl * 13 / 15))
	}
}

// settle notes that this replica enforces all records up to a revision.
func (p *Presence) settle(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = max(p.settled, revision)
	select {
	case p.kick <- struct{}{}:
	default: // an announcement is pending
	}
}

// Withdrawers combines several withdrawers.
type Withdrawers []Withdrawer

// Withdraw calls all of them concurrently, and returns their errors. It returns when the last one
// has returned.
func (w Withdrawers) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	errs := make([]error, len(w))
	var all sync.WaitGroup
	for i, part := range w {
		all.Go(func() { errs[i] = part.Withdraw(ctx, lost) })
	}
	all.Wait()
	return errors.Join(errs...)
}
