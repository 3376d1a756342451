package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	writeEvery = 15 * time.Second
	recent     = 5               // minutes whose blocks are kept separately; also the span of a slot
	slots      = 60/recent + 1   // an hour, and the slot that is being filled
	crowd      = 5_000           // with more subscriptions than this, a minute is stored only at its end
	fit        = 1_000           // subscriptions in a block: a message of 100 KiB
	stale      = 3 * writeEvery  // age at which the standings of a replica are dropped, because it is gone
	writeLimit = 5 * time.Second // for one block
	backlog    = 120             // blocks that could not be stored; older ones are given up
)

// Block is a stored part of the state of a replica: of the counts of a minute, of the cells of an
// hour, or of the standings of its subscriptions with the replica itself. One of Counts, Cells,
// Standings and Replica is set, by its key:
//
//	<process>.29443520.0       part 0 of the minute 29443520
//	<process>.hour.490725.0    part 0 of the hour 490725
//	<process>.standing.0       the standings now; <process>.replica the replica itself
type Block struct {
	Minute int64     `json:"minute,omitempty"` // since 1970
	Hour   int64     `json:"hour,omitempty"`   // since 1970
	At     time.Time `json:"at"`               // when it was written

	Partial   bool                      `json:"partial,omitempty"` // the minute went on: a later block replaces this one
	Counts    map[string]StoredCounts   `json:"counts,omitempty"`  // of the minute
	Cells     map[string]StoredCells    `json:"cells,omitempty"`   // of the hour
	Standings map[string]StoredStanding `json:"standings,omitempty"`
	Replica   *Replica                  `json:"replica,omitempty"`
}

// StoredCounts is the form of Counts in a block.
type StoredCounts struct {
	Delivered uint32   `json:"delivered,omitempty"`
	Failed    uint32   `json:"failed,omitempty"`
	Durations []uint32 `json:"durations"`          // without zeros at the end
	Failures  []uint32 `json:"failures,omitempty"` // by class
	Began     int64    `json:"began"`
}

// StoredStanding is the form of a Standing in a block.
type StoredStanding struct {
	Parked    int                      `json:"parked,omitempty"`
	Held      int                      `json:"held,omitempty"`
	Due       int                      `json:"due,omitempty"`
	Oldest    time.Time                `json:"oldest,omitzero"`
	Breaker   sluice.Breaker           `json:"breaker,omitempty"`
	Replays   int                      `json:"replays,omitempty"`
	Consumers map[sluice.WakeState]int `json:"consumers,omitempty"`
}

// Store keeps blocks of minutes for a little more than an hour, and those of hours for a little more than a day.
type Store interface {
	// Put stores a block, and replaces any other with its key.
	Put(ctx context.Context, key string, b Block) error
	// Follow calls tell for the stored blocks and then for new ones, until ctx is done.
	Follow(ctx context.Context, tell func(key string, b *Block)) error
}

// Deps are the dependencies of a book.
type Deps struct {
	Store   Store
	Process string                        // unique to this process, and without dots
	Gauges  func() []model.DeliveryGauges // of the subscriptions that this process serves
	Now     func() time.Time
	Log     *slog.Logger

	// Optional.
	Replays func() []model.ReplayGauges
	Wakes   func() []model.WakeGauges
	Replica func() Replica
}

// Book has the attempts of all subscriptions in the last hour and day. It is safe for concurrent
// use. open has a lock of its own, so that an attempt does not wait while a Flush stores blocks or
// an Hour adds them up. mu is not held during a request to the store.
type Book struct {
	deps Deps
	open open

	mu        sync.Mutex
	slots     map[int64]map[string]*Counts // closed minutes of this process, and all minutes of others, by span of minutes
	blocks    map[string]*Block            // minutes of others that may be stored again: recent and partial ones
	standings map[string]*Block            // of others, by key
	unsaved   map[string]Block             // of this process

	minutes map[int64]map[string]*column // of the last hour, by minute and key, of all
	hours   map[int64]map[string]*column // of the last day, by hour and key, of all
	own     ownHour
}

// New returns an empty book.
func New(deps Deps) *Book {
	return &Book{
		deps: deps, open: open{minute: minuteOf(deps.Now()), all: map[string]*tally{}},
		slots: map[int64]map[string]*Counts{}, blocks: map[string]*Block{}, standings: map[string]*Block{}, unsaved: map[string]Block{},
		minutes: map[int64]map[string]*column{}, hours: map[int64]map[string]*column{}, own: newHour(minuteOf(deps.Now())),
	}
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Attempted counts an attempt. It does not keep its arguments.
func (b *Book) Attempted(sub *sluice.Subscription, a *sluice.Attempt) { b.open.attempted(sub, a) }

// Run stores blocks and follows those of other replicas until ctx is done. Then it stores the
// remaining counts. Call it once. The result is always nil.
func (b *Book) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		if err := b.deps.Store.Follow(ctx, b.enter); err != nil && ctx.Err() == nil {
			b.deps.Log.WarnContext(ctx, "statistics of other replicas are not followed", slog.Any("error", err))
		}
	})
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			b.turn(lastMinute)
			b.Flush(shutdown.Lasting(ctx))
			return nil
		case <-tick.C:
			b.turn(minuteOf(b.deps.Now()))
			b.Flush(ctx)
		}
	}
}

// lastMinute is later than all others.
const lastMinute = math.MaxInt64

// turn closes the open minute if a new one has begun.
func (b *Book) turn(now int64) {
	minute, all, closed := b.open.next(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	if closed {
		b.keep(minute, all)
		b.enterColumn(b.minutes, minute, b.deps.Process, minuteColumn(all))
		b.save(Block{Minute: minute}, all)
		b.turnHour(minute, all, now)
	}
	b.expire(minuteOf(b.deps.Now()))
}

// keep adds the counts of a minute to the last hour.
func (b *Book) keep(minute int64, all map[string]Counts) {
	slot := b.slots[minute/recent]
	if slot == nil {
		slot = map[string]*Counts{}
		b.slots[minute/recent] = slot
	}
	for id, c := range all {
		known := slot[id]
		if known == nil {
			known = &Counts{began: c.began}
			slot[strings.Clone(id)] = known
		}
		known.add(&c)
	}
}

// expire removes counts of minutes older than an hour, and of hours older than a day.
func (b *Book) expire(now int64) {
	maps.DeleteFunc(b.slots, func(slot int64, _ map[string]*Counts) bool { return over(slot*recent, now) })
	maps.DeleteFunc(b.blocks, func(_ string, block *Block) bool {
		return over(block.Minute, now) || !block.Partial && block.Minute < now-recent
	})
	maps.DeleteFunc(b.minutes, func(minute int64, _ map[string]*column) bool { return minute < now-hour })
	maps.DeleteFunc(b.hours, func(one int64, _ map[string]*column) bool { return one < now/hour-day/hour })
	at := b.deps.Now().Add(-stale)
	maps.DeleteFunc(b.standings, func(_ string, block *Block) bool { return block.At.Before(at) })
}

// over reports whether a minute is in none of the slots any more.
func over(minute, now int64) bool { return minute/recent <= now/recent-slots }

// save queues the counts of a block's minute for the next Flush.
func (b *Book) save(block Block, all map[string]Counts) {
	block.At = b.deps.Now().UTC()
	for part, ids := range parts(all) {
		block.Counts = make(map[string]StoredCounts, len(ids))
		for _, id := range ids {
			c := all[id]
			block.Counts[id] = c.stored()
		}
		b.unsaved[fmt.Sprintf("%s.%d.%d", b.deps.Process, block.Minute, part)] = block
	}
}

// parts divides IDs, in order, into blocks.
func parts[T any](all map[string]T) (blocks [][]string) {
	return slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(all)), fit))
}

func (c *Counts) stored() StoredCounts {
	last := buckets
	for last > 0 && c.Durations[last-1] == 0 {
		last--
	}
	s := StoredCounts{Delivered: c.Delivered, Failed: c.Failed, Durations: slices.Clone(c.Durations[:last]), Began: c.began}
	if c.Failures != nil {
		s.Failures = slices.Clone(c.Failures[:])
	}
	return s
}

func (s *StoredCounts) counts() Counts {
	c := Counts{Delivered: s.Delivered, Failed: s.Failed, began: s.Began}
	copy(c.Durations[:], s.Durations)
	if s.Failed == 0 {
		return c
	}
	c.Failures = new(Failures)
	copy(c.Failures[:], s.Failures)
	known := uint32(0)
	for _, n := range c.Failures {
		known += n
	}
	c.Failures[classes-1] += s.Failed - min(known, s.Failed) // earlier releases do not store classes
	return c
}

// Flush stores the counts that are not stored yet. The first failure ends it; the rest waits for
// the next one, with the newest block of each key.
func (b *Book) Flush(ctx context.Context) {
	minute, all := b.open.read()
	b.mu.Lock()
	if len(all) <= crowd {
		b.save(Block{Minute: minute, Partial: true}, all)
	}
	b.saveStandings()
	unsaved := b.unsaved
	b.unsaved = map[string]Block{}
	b.mu.Unlock()
	for key, block := range unsaved {
		limit, cancel := context.WithTimeout(ctx, writeLimit)
		err := b.deps.Store.Put(limit, key, block)
		cancel()
		if err != nil {
			b.deps.Log.WarnContext(ctx, "statistics not stored yet", slog.Int("blocks", len(unsaved)), slog.Any("error", err))
			b.again(unsaved)
			return
		}
		delete(unsaved, key)
	}
}

// again keeps blocks for the next Flush, unless there are newer ones, or too many.
func (b *Book) again(blocks map[string]Block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, block := range blocks {
		if _, newer := b.unsaved[key]; !newer && len(b.unsaved) < backlog {
			b.unsaved[key] = block
		}
	}
}

// enter applies a stored block of another process, or of an earlier process of this server.
func (b *Book) enter(key string, block *Block) {
	if strings.HasPrefix(key, b.deps.Process+".") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := minuteOf(b.deps.Now())
	switch {
	case block.Hour > 0:
		if block.Hour >= now/hour-day/hour {
			b.enterColumn(b.hours, block.Hour, key, hourColumn(block.Cells))
		}
		return
	case block.Minute == 0:
		b.standings[key] = block
		return
	}
	before := b.blocks[key]
	if over(block.Minute, now) || before == nil && b.minutes[block.Minute][key] != nil { // its counts were final, and are known
		return
	}
	if before != nil {
		b.takeBack(before)
	}
	all := make(map[string]Counts, len(block.Counts))
	for id, s := range block.Counts {
		all[id] = s.counts()
	}
	b.keep(block.Minute, all)
	if block.Minute >= now-hour {
		b.enterColumn(b.minutes, block.Minute, key, minuteColumn(all))
	}
	if delete(b.blocks, key); block.Partial || block.Minute >= now-recent {
		b.blocks[key] = block
	}
}

// takeBack removes the counts of a block from the last hour.
func (b *Book) takeBack(block *Block) {
	slot := b.slots[block.Minute/recent]
	for id, s := range block.Counts {
		if c := s.counts(); slot[id] != nil {
			slot[id].remove(&c)
		}
	}
}

// Hour has the attempts of all subscriptions in the last hour, to within five minutes, and their
// current standings.
type Hour struct {
	Counts    map[string]*Counts
	Recent    map[string]*Counts // of the last five to ten minutes
	Standings map[string]Standing
}

// Hour returns the last hour. The standings of the subscriptions of other replicas are up to 15 s
// old. The caller owns the result. The cost is O(subscriptions × slots).
func (b *Book) Hour() Hour {
	now := minuteOf(b.deps.Now())
	minute, all := b.open.read()
	h := Hour{Counts: map[string]*Counts{}, Recent: map[string]*Counts{}, Standings: map[string]Standing{}}
	b.mu.Lock()
	b.expire(now)
	for slot, counts := range b.slots {
		for id, c := range counts {
			sum(h.Counts, id, c)
			if slot >= now/recent-1 {
				sum(h.Recent, id, c)
			}
		}
	}
	for _, block := range b.standings {
		for id, s := range block.Standings {
			h.Standings[id] = Standing(s)
		}
	}
	b.mu.Unlock()
	for id, c := range all {
		sum(h.Counts, id, &c)
		if minute/recent >= now/recent-1 {
			sum(h.Recent, id, &c)
		}
	}
	maps.Copy(h.Standings, b.stand())
	return h
}

func sum(all map[string]*Counts, id string, c *Counts) {
	known := all[id]
	if known == nil {
		known = &Counts{began: c.began}
		all[id] = known
	}
	known.add(c)
}
