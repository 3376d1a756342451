package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	leaseGrace = 2 * time.Second // how long giving leases back may take
)

// Leases shares subscriptions among replicas. Subscriptions fall into shards; the running
// replicas divide the shards among themselves by rendezvous hashing, and each holds a lease, a
// key with a time to live, on each of its shards. A replica that restarts under its old id has
// its leases at once. Each module is a unit of its own, beside the shards, which those replicas
// share among themselves that can run it.
type Leases struct {
	store   *Store
	kv      jetstream.KeyValue
	replica string
	runs    func() []string // names of the modules that this replica can run
	poked   chan struct{}   // has an element when the modules have changed

	ttl   time.Duration // after which others may take a lease that is not renewed
	renew time.Duration // interval of rounds: two may fail before the lease expires
	limit time.Duration // of a round: it ends before the next is due
	first time.Duration // limit of the first request of a round, doubled for every other try
	again time.Duration // from the beginning of a failed round to the next one
	tries int           // that failed in a row
	ours  time.Duration // after which this replica stops using a lease, before others may take it

	mu   sync.Mutex
	held map[string]lease // by unit
}

type lease struct {
	revision uint64
	until    time.Time // when to stop unless it is renewed, by both clocks

	leaving bool            // it belongs to another replica now
	settled <-chan struct{} // closed when no delivery is in flight any more; nil: the engine was not told yet
}

// Leases returns the leases of a replica. Two replicas never have the same id. runs returns the modules
// that it can run; nil: none.
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

// Poke has the leases of modules divided anew at once: this replica can run others now.
func (l *Leases) Poke() {
	select {
	case l.poked <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// Owns reports whether this replica serves a subscription now, by its lease key (model.LeaseKey).
func (l *Leases) Owns(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, ok := l.held[unitOf(key)]
	return ok && !held.leaving && held.good()
}

// Holder returns the replica that has the lease of a subscription, by its lease key; "" if none has it.
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

// Run takes, renews and gives up leases until ctx is done, and then returns them. It calls
// changed each time that the result of Owns changed for a subscription. The channel that changed returns is
// closed when no delivery of the lost subscriptions is in flight. Until then this replica keeps the leases:
// otherwise another one would send these deliveries again.
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

// leave notes for each lease that belongs to another replica when it can be given up.
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

// round announces this replica and renews, takes and gives up leases. It reports whether the set of owned
// units changed, and whether the store answered. It renews first: the replicas cannot be listed while a
// cluster elects the leader that creates consumers.
func (l *Leases) round(ctx context.Context) (different, said bool) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	before := l.owned()
	if err := l.announce(ctx); err != nil {
		l.store.opts.Log.WarnContext(ctx, "leases not renewed", slog.Any("error", err))
		l.dropExpired()
		l.tries++
		return !maps.Equal(l.owned(), before), false
	}
	l.tries = 0
	renewed := l.units(nil)
	for _, unit := range renewed {
		l.take(ctx, unit)
	}
	able, err := l.candidates(ctx)
	if err != nil {
		l.store.opts.Log.WarnContext(ctx, "replicas not listed", slog.Any("error", err))
		l.dropExpired()
		return !maps.Equal(l.owned(), before), false
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
	l.dropExpired()
	return !maps.Equal(l.owned(), before), true
}

// stay keeps a lease that was to be given up.
func (l *Leases) stay(unit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.held[unit]; ok {
		held.leaving, held.settled = false, nil
		l.held[unit] = held
	}
}

// yield gives up a lease as soon as no delivery is in flight; until then it is renewed.
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

// Held returns how many leases this replica has.
func (l *Leases) Held() int { return len(l.owned()) }

// owned returns the set of units that are held and not about to go.
func (l *Leases) owned() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := map[string]bool{}
	for unit, held := range l.held {
		if !held.leaving {
			set[unit] = true
		}
	}
	return set
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

// good reports whether a lease holds now.
func (held lease) good() bool { return holds(remaining(time.Now(), held.until)) }

// remaining returns how long it is to a moment by the monotonic clock and by the one on the wall.
func remaining(now, moment time.Time) (monotonic, wall time.Duration) {
	return moment.Sub(now), moment.Round(0).Sub(now.Round(0))
}

// holds reports whether a lease holds that has so much left by each clock. The monotonic clock stands still while a
// machine is suspended, when others take its leases; the one on the wall can be set back.
func holds(monotonic, wall time.Duration) bool { return monotonic > 0 && wall > 0 }

// announce says that this replica is there. It is the first question of a round: a cluster that elects a leader does not answer
// it, and is asked again soon. What is sent before it has a leader is lost, so the limit is short; a slow cluster has twice the time at
// every other try.
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

// take renews a lease, or takes one that is free or was this replica's own in a former life.
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
	held.revision, held.until = revision, began.Add(l.ours)
	l.held[unit] = held
	l.mu.Unlock()
}

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

// remove deletes a key. If it cannot, the key expires by itself.
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

// compareAndPut does so if the key's revision is as given. A key that was removed or expired
// has a marker with a revision of its own.
func (l *Leases) compareAndPut(ctx context.Context, key string, revision uint64) (uint64, error) {
	if revision > 0 {
		return l.put(ctx, key, []byte(l.replica), jetstream.WithExpectLastSequencePerSubject(revision))
	}
	return l.kv.Create(ctx, key, []byte(l.replica), jetstream.KeyTTL(l.ttl))
}
