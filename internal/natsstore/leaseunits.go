package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
)

const (
	replicaPrefix = "replica."
	unitPrefix    = "push."
	modulePrefix  = "module-" // of the unit of a module; the unit of a shard is its number
)

// announced is the announcement of a replica. Earlier builds announce their ID instead, and run no
// modules.
type announced struct {
	Modules []string `json:"modules,omitempty"` // that it can run
}

func (l *Leases) announcement() ([]byte, error) {
	var is announced
	if l.runs != nil {
		is.Modules = l.runs()
	}
	text, err := json.Marshal(is)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	return text, nil
}

// Replicas returns the IDs of the replicas that have announced themselves within the time to live
// of a lease.
func (l *Leases) Replicas(ctx context.Context) ([]string, error) {
	all, err := l.announcements(ctx)
	return slices.Collect(maps.Keys(all)), err
}

// announcements returns the announcements of the last time to live of a lease, by replica. An
// incomplete list would move units to this replica that others hold, so an error is better.
func (l *Leases) announcements(ctx context.Context) (map[string]announced, error) {
	watch, err := l.kv.Watch(ctx, replicaPrefix+"*", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }() // all entries were read
	all := map[string]announced{}
	for {
		select {
		case entry := <-watch.Updates():
			if entry == nil {
				return all, ctx.Err()
			}
			var said announced
			_ = json.Unmarshal(entry.Value(), &said) // of an earlier build it is an ID, and it runs no modules
			all[strings.TrimPrefix(entry.Key(), replicaPrefix)] = said
		case <-ctx.Done():
			return nil, ctx.Err() // some may be missing
		}
	}
}

// candidates returns the replicas that may hold each unit.
func (l *Leases) candidates(ctx context.Context) (able map[string][]string, err error) {
	said, err := l.announcements(ctx)
	if err != nil {
		return nil, err
	}
	able = map[string][]string{}
	for replica, is := range said {
		for shard := range shards {
			able[strconv.Itoa(shard)] = append(able[strconv.Itoa(shard)], replica)
		}
		for _, name := range is.Modules {
			able[modulePrefix+name] = append(able[modulePrefix+name], replica)
		}
	}
	return able, nil
}

// Holding returns the leases that this replica holds and keeps at this moment, by lease key. then
// reports whether a key's lease is one of them, and never changes. still reports whether it has also
// been held without a break since. Of a lease that was lost and acquired again, Owns is true and
// still is not.
func (l *Leases) Holding() (then, still func(key string) bool) {
	terms := l.owned()
	then = func(key string) bool { return terms[unitOf(key)] != 0 }
	still = func(key string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		unit := unitOf(key)
		return terms[unit] != 0 && l.termOf(unit) == terms[unit]
	}
	return then, still
}

// units returns the units in able and those that this replica holds, shards first: they matter most
// if the time of a round is over early.
func (l *Leases) units(able map[string][]string) []string {
	all := slices.Collect(maps.Keys(able))
	l.mu.Lock()
	all = slices.AppendSeq(all, maps.Keys(l.held))
	l.mu.Unlock()
	slices.Sort(all) // digits before letters
	return slices.Compact(all)
}

func unitKey(unit string) string { return unitPrefix + unit }

// unitOf returns the unit that a lease key belongs to.
func unitOf(key string) string {
	if name, ok := model.ModuleOfLease(key); ok {
		return modulePrefix + name
	}
	return strconv.Itoa(ShardOf(key))
}

// ShardOf returns the shard of a lease key, counted from 0. One replica at a time serves a shard.
// The number of shards is part of the stored layout: replicas with different numbers would both
// serve a subscription.
func ShardOf(subscription string) int { return int(sum(subscription) % shards) }

// preferred returns the replica that should hold the unit: the one with the highest hash; "" if
// there is none. The unit is hashed first, because the last few bytes affect the high bits of this
// hash too little. Every replica with the same list computes the same result. If one leaves, only
// its units move.
func preferred(unit string, replicas []string) (best string) {
	var highest uint64
	for _, r := range replicas {
		if h := sum(unit + "/" + r); best == "" || h > highest {
			best, highest = r, h
		}
	}
	return best
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // Write of a hash never fails
	return h.Sum64()
}
