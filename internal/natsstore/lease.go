package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/streams"
)

const (
	shards     = 16
	leaseTTL   = 15 * time.Second
	leaseGrace = 2 * time.Second // time limit for releasing all leases
)

// Leases distributes subscriptions among replicas. Each subscription belongs to a shard. The
// running replicas distribute the shards by rendezvous hashing, and each holds a lease, a key with
// a time to live, on each of its shards. A replica that restarts with the same ID gets its leases
// back immediately. Each module is a unit of its own beside the shards, which one of the replicas
// holds that can run the module. mu guards held and terms. Only Run uses tries and known. The other
// fields do not change. The keys in the bucket leases:
//
//	push.7             the id of the replica that holds shard 7
//	push.module-mail   the id of the replica that runs the module mail
//	replica.<id>       {"modules":["mail"]}: the replica is running
//
// All expire after the ttl.
type Leases struct {
	store   *Store
	kv      jetstream.KeyValue
	replica string
	runs    func() []string // names of the modules that this replica can run
	poked   chan struct{}   // contains an element after the modules have changed

	ttl   time.Duration  // after which other replicas may take a lease that was not renewed
	renew time.Duration  // interval of rounds: two may fail before the lease expires
	limit time.Duration  // time limit of a round, which ends before the next one is due
	first time.Duration  // time limit of the first request of a round; doubled for every second try
	again time.Duration  // from the start of a failed round to the start of the next one
	tries int            // consecutive failed rounds
	ours  time.Duration  // after which this replica stops using a lease that was not renewed; less than ttl
	known map[string]int // result of owned in the last round

	mu    sync.Mutex
	held  map[string]lease // by unit
	terms int              // number of the last term
}

type lease struct {
	revision uint64
	until    time.Time // when this replica stops using it, by both clocks
	term     int       // the uninterrupted time for which it is held; each has another number, counted from 1

	leaving bool            // the unit is assigned to another replica now
	settled <-chan struct{} // closed when no delivery is in flight any more; nil: the engine was not notified yet
}

// Leases returns the leases of a replica. Two replicas must not have the same ID. runs returns the
// names of the modules that the replica can run; nil: none. Leases acquires nothing before Run. A
// replica that restarts takes over the leases under its ID at once. Therefore two running replicas
// with one ID would both deliver.
func (s *Store) Leases(ctx context.Context, replica string, runs func() []string) (*Leases, error) {
	kv, err := s.js.KeyValue(ctx, s.names.Bucket(streams.Leases))
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	ttl := s.opts.LeaseTTL
	return &Leases{
		store: s, kv: kv, replica: replica, held: map[string]lease{}, runs: runs, poked: make(chan struct{}, 1),
		ttl: ttl, renew: ttl / 3, limit: ttl * 4 / 15, first: ttl / 15, again: ttl / 15, ours: ttl * 13 / 15,
	}, nil
}

// Poke starts a round immediately, because the modules that this replica can run have changed.
func (l *Leases) Poke() {
	select {
	case l.poked <- struct{}{}:
	default: // a round is already requested
	}
}

// Owns reports whether this replica serves a subscription now. The key is its lease key
// (model.LeaseKey). It makes no request. The result holds for the moment: work that takes longer
// than ttl − ours must ask again before each effect.
func (l *Leases) Owns(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.termOf(unitOf(key)) != 0
}

// OwnsShard reports whether this replica owns a shard (ShardOf) now, as Owns does for a subscription
// of it.
func (l *Leases) OwnsShard(shard int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.termOf(strconv.Itoa(shard)) != 0
}

// Holder returns the ID of the replica that holds the lease of a subscription; "" if none does. The
// key is its lease key. It asks NATS, and says nothing about whether that replica is still running:
// a lease outlives a killed holder by up to its ttl.
func (l *Leases) Holder(ctx context.Context, key string) (string, error) {
	entry, err := l.kv.Get(ctx, unitKey(unitOf(key)))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease of %s: %w", key, StoreError(ctx, err))
	}
	return string(entry.Value()), nil
}

// Run acquires, renews and releases leases until ctx is done, and then releases all. It calls
// changed whenever the result of Owns may have changed for a subscription. The channel that changed
// returns must be closed when no delivery of the lost subscriptions is in flight any more. Until
// then this replica keeps the leases: otherwise another replica would send these deliveries again.
// Call it once. changed is called by Run's goroutine and must not block. Its channel must not be
// nil: the leases would never be released. The result is always nil. Leases that Run cannot release
// within leaseGrace expire.
func (l *Leases) Run(ctx context.Context, changed func() <-chan struct{}) error {
	tick := time.NewTicker(l.renew)
	defer tick.Stop()
	var settled <-chan struct{}
	for {
		began := time.Now()
		different, said := l.round(ctx)
		if different {
			settled = changed()
			l.leave(settled)
		}
		if said {
			tick.Reset(l.renew)
		} else {
			tick.Reset(max(l.again-time.Since(began), l.again/4))
		}
		select {
		case <-ctx.Done():
			l.giveBack(shutdown.Lasting(ctx))
			return nil
		case <-settled:
			settled = nil
		case <-l.poked:
		case <-tick.C:
		}
	}
}

// leave stores the channel for each lease that is to be released.
func (l *Leases) leave(settled <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for unit, held := range l.held {
		if held.leaving && held.settled == nil {
			held.settled = settled
			l.held[unit] = held
		}
	}
}

// round announces this replica, and renews, acquires and releases leases. It returns whether the
// set of owned units or a term changed since the last round, and whether the store answered.
func (l *Leases) round(ctx context.Context) (different, said bool) {
	said = l.renewAll(ctx)
	now := l.owned()
	l.dropExpired() // a lease that ends just now is a change of the next round
	different = !maps.Equal(now, l.known)
	l.known = now
	return different, said
}

// renewAll is round without its comparison. It renews first: the replicas cannot be listed while a
// cluster elects the leader that creates consumers.
func (l *Leases) renewAll(ctx context.Context) (said bool) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	if err := l.announce(ctx); err != nil {
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			l.store.miss()
		}
		l.store.opts.Log.Log(ctx, l.store.retryLevel(err, l.tries), "leases not renewed; retrying", slog.Any("error", err))
		l.tries++
		return false
	}
	l.tries = 0
	renewed := l.units(nil)
	for _, unit := range renewed {
		l.take(ctx, unit)
	}
	able, err := l.candidates(ctx)
	if err != nil {
		l.store.opts.Log.WarnContext(ctx, "replicas not listed", slog.Any("error", err))
		return false
	}
	for _, unit := range l.units(able) {
		if preferred(unit, able[unit]) != l.replica {
			l.yield(ctx, unit)
			continue
		}
		l.stay(unit)
		if _, done := slices.BinarySearch(renewed, unit); !done {
			l.take(ctx, unit)
		}
	}
	return true
}

// stay keeps a lease that may have been about to be released.
func (l *Leases) stay(unit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.held[unit]; ok {
		held.leaving, held.settled = false, nil
		l.held[unit] = held
	}
}

// yield releases a lease if no delivery is in flight any more; until then the lease is renewed.
func (l *Leases) yield(ctx context.Context, unit string) {
	l.mu.Lock()
	held, ok := l.held[unit]
	if ok {
		held.leaving = true
		l.held[unit] = held
	}
	l.mu.Unlock()
	if !ok {
		return
	}
	select {
	case <-held.settled:
		l.release(ctx, unit)
	default:
	}
}

// Held returns the number of leases that this replica holds and keeps.
func (l *Leases) Held() int { return len(l.owned()) }

// owned returns the terms of the units that are held and not to be released. A lease that was lost
// and acquired again has another term.
func (l *Leases) owned() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	terms := map[string]int{}
	for unit := range l.held {
		if term := l.termOf(unit); term != 0 {
			terms[unit] = term
		}
	}
	return terms
}

// termOf returns the term of a unit that is held and not to be released, else 0. A lease found
// expired stays so until it is acquired again, also if the wall clock is set back. The caller holds
// the lock.
func (l *Leases) termOf(unit string) int {
	held, ok := l.held[unit]
	if !ok || held.leaving {
		return 0
	}
	if !held.good() {
		held.until = time.Time{}
		l.held[unit] = held
		return 0
	}
	return held.term
}

func (l *Leases) dropExpired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for unit, held := range l.held {
		if !held.good() {
			delete(l.held, unit)
		}
	}
}

// good reports whether a lease is valid now.
func (held lease) good() bool { return holds(remaining(time.Now(), held.until)) }

// remaining returns the time until moment by the monotonic clock and by the wall clock.
func remaining(now, moment time.Time) (monotonic, wall time.Duration) {
	return moment.Sub(now), moment.Round(0).Sub(now.Round(0))
}

// holds reports whether a lease with these remaining times is valid. The monotonic clock stops
// while a machine is suspended, although other replicas take its leases; the wall clock can be set
// back.
func holds(monotonic, wall time.Duration) bool { return monotonic > 0 && wall > 0 }

// announce stores that this replica is running. It is the first request of a round. A cluster that
// elects a leader does not answer it, and the next round follows soon. A request that is sent
// before a leader is elected is lost. Therefore the time limit is short; for a slow cluster it is
// doubled for every second try.
func (l *Leases) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.first<<(l.tries%2))
	defer cancel()
	said, err := l.announcement()
	if err != nil {
		return err
	}
	_, err = l.put(ctx, replicaPrefix+l.replica, said)
	return err
}

// take renews a lease, or acquires one that is free or that this replica held before a restart. The
// time of validity starts before the request, because NATS counts from when it stores the lease,
// which is later. A valid lease also goes on in a bucket that was deleted and recreated, if that has
// no trace of another holder: a trace lasts for the ttl, which is longer than the lease is valid.
func (l *Leases) take(ctx context.Context, unit string) {
	began := time.Now()
	l.mu.Lock()
	held, ok := l.held[unit]
	l.mu.Unlock()
	if !ok {
		entry, err := l.kv.Get(ctx, unitKey(unit))
		switch {
		case err == nil && string(entry.Value()) != l.replica:
			return
		case err == nil:
			held.revision = entry.Revision()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return
		}
	}
	revision, err := l.compareAndPut(ctx, unitKey(unit), held.revision)
	if IsConflict(err) && held.good() {
		revision, err = l.put(ctx, unitKey(unit), []byte(l.replica), jetstream.WithExpectLastSequencePerSubject(0))
	}
	if IsConflict(err) {
		l.mu.Lock()
		delete(l.held, unit)
		l.mu.Unlock()
	}
	if err != nil {
		return
	}
	l.mu.Lock()
	held = l.held[unit]
	if !held.good() {
		l.terms++
		held.term = l.terms
	}
	held.revision, held.until = revision, began.Add(l.ours)
	l.held[unit] = held
	l.mu.Unlock()
}

// release deletes a lease that this replica holds. Because of the revision, it does not delete one
// that another replica has acquired meanwhile.
func (l *Leases) release(ctx context.Context, unit string) {
	l.mu.Lock()
	held, ok := l.held[unit]
	delete(l.held, unit)
	l.mu.Unlock()
	if ok {
		l.remove(ctx, unitKey(unit), jetstream.LastRevision(held.revision))
	}
}

func (l *Leases) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseGrace)
	defer cancel()
	for _, unit := range l.units(nil) {
		l.release(ctx, unit)
	}
	l.remove(ctx, replicaPrefix+l.replica)
}

// remove deletes a key. If that fails, the key expires.
func (l *Leases) remove(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) {
	if err := l.kv.Purge(ctx, key, append(opts, jetstream.PurgeTTL(l.ttl))...); err != nil && !shutdown.Left(ctx, "leases", 1) {
		l.store.opts.Log.DebugContext(ctx, "lease not returned", slog.String("key", key), slog.Any("error", err))
	}
}

// put stores a value under a key that expires.
func (l *Leases) put(ctx context.Context, key string, value []byte, opts ...jetstream.PublishOpt) (uint64, error) {
	msg := &nats.Msg{Subject: l.store.WriteSubject(l.store.names.KeySubject(streams.Leases, key)), Data: value}
	ack, err := l.store.js.PublishMsg(ctx, msg, append(opts, jetstream.WithMsgTTL(l.ttl))...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// compareAndPut stores the ID of this replica under a key if the revision of the key is the given
// one, and creates the key if the revision is 0. A deleted or expired key has a marker with its own
// revision.
func (l *Leases) compareAndPut(ctx context.Context, key string, revision uint64) (uint64, error) {
	if revision > 0 {
		return l.put(ctx, key, []byte(l.replica), jetstream.WithExpectLastSequencePerSubject(revision))
	}
	return l.kv.Create(ctx, key, []byte(l.replica), jetstream.KeyTTL(l.ttl))
}
