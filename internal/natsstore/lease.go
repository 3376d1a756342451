package natsstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
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
// its leases at once.
type Leases struct {
	store   *Store
	kv      jetstream.KeyValue
	replica string

	ttl   time.Duration // after which others may take a lease that is not renewed
	renew time.Duration // interval of rounds: two may fail before the lease expires
	limit time.Duration // of a round: it ends before the next is due
	first time.Duration // limit of the first request of a round
	again time.Duration // pause after a failed round
	ours  time.Duration // after which this replica stops using a lease, before others may take it

	mu   sync.Mutex
	held map[int]lease
}

type lease struct {
	revision uint64
	until    time.Time // when to stop unless it is renewed, by both clocks

	leaving bool            // it belongs to another replica now
	settled <-chan struct{} // closed when no delivery is in flight any more; nil: the engine was not told yet
}

// Leases returns the leases of a replica. Two replicas never have the same id.
func (s *Store) Leases(ctx context.Context, replica string) (*Leases, error) {
	kv, err := s.js.KeyValue(ctx, streams.Leases)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	ttl := s.opts.LeaseTTL
	return &Leases{
		store: s, kv: kv, replica: replica, held: map[int]lease{},
		ttl: ttl, renew: ttl / 3, limit: ttl * 4 / 15, first: ttl * 2 / 15, again: ttl / 15, ours: ttl * 13 / 15,
	}, nil
}

// Owns reports whether this replica serves the subscription now.
func (l *Leases) Owns(subscription string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, ok := l.held[ShardOf(subscription)]
	return ok && !held.leaving && held.good()
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
		different, said := l.round(ctx)
		if different {
			settled = changed()
			l.leave(settled)
		}
		if said {
			tick.Reset(l.renew)
		} else {
			tick.Reset(l.again)
		}
		select {
		case <-ctx.Done():
			l.giveBack(shutdown.Lasting(ctx))
			return nil
		case <-settled:
			settled = nil
		case <-tick.C:
		}
	}
}

// leave notes for each lease that belongs to another replica when it can be given up.
func (l *Leases) leave(settled <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, held := range l.held {
		if held.leaving && held.settled == nil {
			held.settled = settled
			l.held[shard] = held
		}
	}
}

// round announces this replica and takes, renews and gives up leases. It reports whether the set of owned
// shards changed, and whether the store answered.
func (l *Leases) round(ctx context.Context) (different, said bool) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	before := l.owned()
	if err := l.announce(ctx); err != nil {
		l.store.opts.Log.WarnContext(ctx, "leases not renewed", slog.Any("error", err))
		l.dropExpired()
		return l.owned() != before, false
	}
	replicas, err := l.Replicas(ctx)
	if err != nil {
		l.store.opts.Log.WarnContext(ctx, "replicas not listed", slog.Any("error", err))
		l.dropExpired()
		return l.owned() != before, false
	}
	for shard := range shards {
		if preferred(shard, replicas) == l.replica {
			l.stay(shard)
			l.take(ctx, shard)
		} else {
			l.yield(ctx, shard)
		}
	}
	l.dropExpired()
	return l.owned() != before, true
}

// stay keeps a lease that was to be given up.
func (l *Leases) stay(shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.held[shard]; ok {
		held.leaving, held.settled = false, nil
		l.held[shard] = held
	}
}

// yield gives up a lease as soon as no delivery is in flight, and keeps it until then.
func (l *Leases) yield(ctx context.Context, shard int) {
	l.mu.Lock()
	held, ok := l.held[shard]
	if ok {
		held.leaving = true
		l.held[shard] = held
	}
	l.mu.Unlock()
	if !ok {
		return
	}
	select {
	case <-held.settled:
		l.release(ctx, shard)
	default:
		l.take(ctx, shard)
	}
}

// owned returns the set of shards that are held and not about to go.
func (l *Leases) owned() (set uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, held := range l.held {
		if !held.leaving {
			set |= 1 << shard
		}
	}
	return set
}

func (l *Leases) dropExpired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, held := range l.held {
		if !held.good() {
			delete(l.held, shard)
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
// it, and is asked again soon.
func (l *Leases) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.first)
	defer cancel()
	_, err := l.put(ctx, "replica."+l.replica)
	return err
}

// Replicas returns the ids of the replicas that have announced themselves within the time to live of a lease.
func (l *Leases) Replicas(ctx context.Context) ([]string, error) {
	keys, err := l.kv.ListKeysFiltered(ctx, "replica.*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = keys.Stop() }() // it has ended by itself
	var all []string
	for key := range keys.Keys() {
		all = append(all, strings.TrimPrefix(key, "replica."))
	}
	return all, ctx.Err() // without it some may be missing
}

// take renews a lease, or takes one that is free or was this replica's own in a former life.
func (l *Leases) take(ctx context.Context, shard int) {
	began := time.Now()
	l.mu.Lock()
	held, ok := l.held[shard]
	l.mu.Unlock()
	if !ok {
		entry, err := l.kv.Get(ctx, shardKey(shard))
		switch {
		case err == nil && string(entry.Value()) != l.replica:
			return
		case err == nil:
			held.revision = entry.Revision()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return
		}
	}
	revision, err := l.compareAndPut(ctx, shardKey(shard), held.revision)
	if IsConflict(err) {
		l.mu.Lock()
		delete(l.held, shard)
		l.mu.Unlock()
	}
	if err != nil {
		return
	}
	l.mu.Lock()
	held = l.held[shard]
	held.revision, held.until = revision, began.Add(l.ours)
	l.held[shard] = held
	l.mu.Unlock()
}

func (l *Leases) release(ctx context.Context, shard int) {
	l.mu.Lock()
	held, ok := l.held[shard]
	delete(l.held, shard)
	l.mu.Unlock()
	if ok {
		l.remove(ctx, shardKey(shard), jetstream.LastRevision(held.revision))
	}
}

func (l *Leases) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseGrace)
	defer cancel()
	for shard := range shards {
		l.release(ctx, shard)
	}
	l.remove(ctx, "replica."+l.replica)
}

// remove deletes a key. If it cannot, the key expires by itself.
func (l *Leases) remove(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) {
	if err := l.kv.Purge(ctx, key, append(opts, jetstream.PurgeTTL(l.ttl))...); err != nil && !shutdown.Left(ctx, "leases", 1) {
		l.store.opts.Log.DebugContext(ctx, "lease not returned", slog.String("key", key), slog.Any("error", err))
	}
}

// put stores this replica's id under a key that expires.
func (l *Leases) put(ctx context.Context, key string, opts ...jetstream.PublishOpt) (uint64, error) {
	msg := &nats.Msg{Subject: "$KV." + streams.Leases + "." + key, Data: []byte(l.replica)}
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
		return l.put(ctx, key, jetstream.WithExpectLastSequencePerSubject(revision))
	}
	return l.kv.Create(ctx, key, []byte(l.replica), jetstream.KeyTTL(l.ttl))
}

func shardKey(shard int) string { return "push." + strconv.Itoa(shard) }

// ShardOf returns the shard of a subscription, from 0 on: each shard is one replica's at a time.
func ShardOf(subscription string) int { return int(sum(subscription) % shards) }

// preferred returns the replica that should hold the shard: the one with the highest hash. The
// shard is hashed first: the last few bytes move the high bits of this hash too little.
func preferred(shard int, replicas []string) (best string) {
	var highest uint64
	for _, r := range replicas {
		if h := sum(strconv.Itoa(shard) + "/" + r); best == "" || h > highest {
			best, highest = r, h
		}
	}
	return best
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash does not fail
	return h.Sum64()
}
