package problem

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	writeEvery = 5 * time.Second
	atOnce     = 200              // records that are written at a time, the longest waiting first
	again      = 30 * time.Second // minimum interval of writes of a record that change only counts
	tries      = 8                // tries of a change that others make, too
	lookEvery  = time.Minute      // interval of looking for deleted subscriptions
	endLimit   = 2 * time.Second  // for writing the rest at the end
)

// Store stores the records.
type Store interface {
	// Get returns a record and its revision. Code NotFound.
	Get(ctx context.Context, id string) (Record, uint64, error)
	// Put stores a record. Code Conflict unless the stored revision is the given one; 0 means that
	// none is stored.
	Put(ctx context.Context, r Record, revision uint64) error
	// Delete removes a record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, id string, revision uint64) error
	// Follow calls tell for all records and then for their changes, until ctx is done. A nil r
	// means that the record was removed.
	Follow(ctx context.Context, tell func(id string, r *Record)) error
}

// Situation is the current condition of a subscription. Sub must not be changed. The counts may be
// some seconds old.
type Situation struct {
	Sub         *sluice.Subscription
	Breaker     sluice.Breaker
	Parked      int
	DeadLetters uint64
}

// Deps are the dependencies of a book.
type Deps struct {
	Store  Store
	Ledger *ledger.Ledger
	Owns   func(lease string) bool // whether this replica serves a subscription, by its lease key
	Lease  func(sub *sluice.Subscription) string
	Stands func() map[string]Standing // the subscriptions that this process serves
	// Situations returns a function that finds subscriptions by their ID.
	Situations func(ctx context.Context) (func(id string) (Situation, bool), error)
	Now        func() time.Time
	Log        *slog.Logger
}

// Book has the problems of all subscriptions. It is safe for concurrent use.
type Book struct {
	deps Deps

	mu    sync.RWMutex
	known map[string]*Record   // as stored, without sketches
	sick  map[string]*sickness // subscriptions with records or news, by ID
	news  map[string]*news     // failures that are not stored yet, by ID of the problem
	wrote map[string]time.Time // when a record was last written here
}

// sickness has the last success and the last opening of the breaker of a subscription with
// problems.
type sickness struct {
	problems  int
	succeeded atomic.Int64 // ns since 1970; 0: never here
	broke     atomic.Int64 // when its breaker last opened, in the same way
}

// news has the failures of a record that are not stored yet. It is merged into the stored record,
// and then forgotten. waits is the time of its first failure.
type news struct {
	Record

	waits time.Time // since when
}

// New returns an empty book.
func New(deps Deps) *Book {
	return &Book{deps: deps, known: map[string]*Record{}, sick: map[string]*sickness{}, news: map[string]*news{}, wrote: map[string]time.Time{}}
}

// Attempted records an attempt. A successful one costs only a lookup. It does not block on the
// store. Failures of an earlier subscription of the same ID are dropped.
func (b *Book) Attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	at := a.StartedAt.Add(a.Duration.Std())
	class := a.Failure()
	if class == "" {
		b.mu.RLock()
		if s := b.sick[sub.ID]; s != nil {
			s.succeeded.Store(at.UnixNano())
		}
		b.mu.RUnlock()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id, began := ID(sub.ID, class), sub.CreatedAt.UnixMilli()
	n := b.news[id]
	if n == nil || n.Began < began {
		n = &news{waits: b.deps.Now()}
		n.Subscription, n.Namespace, n.Class, n.Began, n.Lease, n.State = sub.ID, sub.Namespace, class, began, b.deps.Lease(sub), sluice.ProblemOpen
		b.news[id] = n
	}
	if n.Began == began {
		n.fail(a, at.UTC())
	}
	if b.sick[sub.ID] == nil {
		b.sick[sub.ID] = &sickness{}
	}
}

// Turned records that a breaker has opened. A breaker that opens before the first failure is
// recorded here is noted by Settle.
func (b *Book) Turned(sub *sluice.Subscription, to sluice.Breaker) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.sick[sub.ID]; s != nil && to == sluice.BreakerOpen {
		s.broke.Store(b.deps.Now().UnixNano())
	}
}

// Run stores failures, resolves problems and follows the records until ctx is done. Then it stores
// the remaining failures. It returns nil when ctx is done, after at most endLimit. A failure to
// follow the records is logged, and is not an error: problems are no condition for deliveries.
func (b *Book) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		if err := b.deps.Store.Follow(ctx, b.enter); err != nil && ctx.Err() == nil {
			b.deps.Log.WarnContext(ctx, "problems of other servers are not followed", slog.Any("error", err))
		}
	})
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(shutdown.Lasting(ctx), endLimit)
			defer cancel()
			b.Flush(last)
			return nil
		case <-tick.C:
			b.Flush(ctx)
			b.Settle(ctx)
			if now := b.deps.Now(); now.Sub(looked) >= lookEvery {
				looked = now
				b.Clear(ctx)
			}
		}
	}
}

// enter applies a stored record. r becomes the book's own, without its sketches: they are half a
// kilobyte each, and only their counts are needed.
func (b *Book) enter(id string, r *Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.known[id]
	switch {
	case r == nil && before != nil:
		delete(b.known, id)
		delete(b.wrote, id)
		if s := b.sick[before.Subscription]; s != nil {
			if s.problems--; s.problems <= 0 {
				delete(b.sick, before.Subscription)
			}
		}
	case r != nil:
		r.counted.events, r.counted.paths = r.Events.count(), r.Paths.count()
		r.Events, r.Paths = nil, nil
		b.known[id] = r
		if before == nil {
			if b.sick[r.Subscription] == nil {
				b.sick[r.Subscription] = &sickness{}
			}
			b.sick[r.Subscription].problems++
		}
	}
}

// Flush stores failures that are not stored yet. It writes at most atOnce records. Failures that
// could not be written wait for the next call.
func (b *Book) Flush(ctx context.Context) {
	for _, n := range b.take() {
		err := b.change(ctx, n.ID(), func(r *Record) act {
			if r.Subscription == "" {
				*r = n.Record
			} else {
				r.merge(&n.Record)
			}
			return open
		})
		if err != nil {
			b.deps.Log.WarnContext(ctx, "problem not stored yet", slog.String("problem", n.ID()), slog.Any("error", err))
			b.giveBack(n)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// take removes and returns the failures to store now: those of new problems first, then the longest
// waiting ones. A record that a failure only counts is written every 30 s at most, because each
// write costs a compare-and-set that replicas contend for.
func (b *Book) take() []*news {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.deps.Now()
	var due []*news
	for id, n := range b.news {
		if b.changes(n) || now.Sub(b.wrote[id]) >= again {
			due = append(due, n)
		}
	}
	slices.SortFunc(due, func(x, y *news) int {
		if x, y := b.changes(x), b.changes(y); x != y {
			if x {
				return -1
			}
			return 1
		}
		return x.waits.Compare(y.waits)
	})
	due = due[:min(len(due), atOnce)]
	for _, n := range due {
		delete(b.news, n.ID())
		b.wrote[n.ID()] = now
	}
	return due
}

// changes reports whether failures open a new problem.
func (b *Book) changes(n *news) bool {
	r := b.known[n.ID()]
	return r == nil || r.State == sluice.ProblemResolved || r.Began != n.Began
}

// giveBack keeps failures for the next Flush.
func (b *Book) giveBack(n *news) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.wrote, n.ID())
	if later := b.news[n.ID()]; later != nil {
		n.merge(&later.Record)
	}
	b.news[n.ID()] = n
}

// change changes a record, and calls f again after a concurrent change. F gets an empty record if
// none is stored, and returns whether to store, remove or leave the record. Code Conflict after
// tries concurrent changes.
func (b *Book) change(ctx context.Context, id string, f func(r *Record) act) (err error) {
	for range tries {
		var r Record
		var revision uint64
		r, revision, err = b.deps.Store.Get(ctx, id)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		switch f(&r) {
		case leave:
			return nil
		case remove:
			err = b.deps.Store.Delete(ctx, id, revision)
		case open, resolve:
			err = b.deps.Store.Put(ctx, r, revision)
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return err
}

// instant returns the time of nanoseconds since 1970; 0: the zero time.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Settle resolves the problems of the subscriptions that this replica serves, and removes old ones.
// Records with failures that are not stored yet are left for later: they would be resolved without
// them. An error is logged, and the next call tries again.
func (b *Book) Settle(ctx context.Context) {
	stands, now := b.deps.Stands(), b.deps.Now()
	b.mu.RLock()
	standing := func(r *Record) Standing {
		s := stands[r.Subscription]
		if sick := b.sick[r.Subscription]; sick != nil {
			s.Succeeded, s.Broke = instant(sick.succeeded.Load()), instant(sick.broke.Load())
		}
		return s
	}
	due := map[string]Standing{}
	for id, r := range b.known {
		s := standing(r)
		if _, unsaved := b.news[id]; !unsaved && r.due(s, now) != leave && b.deps.Owns(r.Lease) {
			due[id] = s
		}
	}
	b.mu.RUnlock()
	for id, s := range due {
		err := b.change(ctx, id, func(r *Record) act {
			if r.Subscription == "" {
				return leave
			}
			does := r.due(s, now)
			switch does {
			case open:
				r.Opened = true
			case resolve:
				r.State, r.ResolvedAt = sluice.ProblemResolved, now.UTC()
			case leave, remove:
			}
			return does
		})
		if err != nil {
			b.deps.Log.WarnContext(ctx, "problem not resolved yet", slog.String("problem", id), slog.Any("error", err))
		}
	}
}

// Clear removes the problems of deleted subscriptions, of those that this replica would serve.
func (b *Book) Clear(ctx context.Context) {
	b.mu.RLock()
	all := maps.Clone(b.known)
	b.mu.RUnlock()
	if len(all) == 0 {
		return
	}
	situations, err := b.deps.Situations(ctx)
	if err != nil {
		return // the next time
	}
	for id, r := range all {
		s, is := situations(r.Subscription)
		if is && s.Sub.CreatedAt.UnixMilli() == r.Began || !b.deps.Owns(r.Lease) {
			continue
		}
		_ = b.change(ctx, id, func(now *Record) act { // after an error, the next call tries again
			if now.Subscription == "" || now.Began != r.Began {
				return leave
			}
			return remove
		})
	}
}

// records returns copies of the stored records, ordered by ID, without the failures that are not
// stored yet. The cost is O(n log n).
func (b *Book) records() []Record {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]Record, 0, len(b.known))
	for _, r := range b.known {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(x, y Record) int { return strings.Compare(x.ID(), y.ID()) })
	return all
}
