package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// endLimit is what is under way may still take when the server ends.
const endLimit = 5 * time.Second

// knownLimit bounds how long somebody waits for a server that has just been started.
const knownLimit = 10 * time.Second

// maxSteps is more than one record takes at one time: an appointment is told of, noticed, told of, fired, told of, and again after a
// race.
const maxSteps = 12

// Kind knows the records of one kind.
type Kind[T any] interface {
	// Read returns what is stored under a key. Code NotFound.
	Read(ctx context.Context, key string) (T, error)
	// Entry returns when to look at a record that is stored, in which lane, and of which namespace it is.
	Entry(key string, one *T) timerqueue.Entry
	// Mark returns where a record is in the list of its namespace, and false if it is not shown there.
	Mark(one *T) (Mark, bool)
	// Step does with a record what is to be done now, and returns what comes next. Code Conflict if it was changed meanwhile.
	Step(ctx context.Context, key string, one *T) (Next, error)
	// Tries returns how often it was tried to do what is to be done.
	Tries(one *T) int
}

// Next is what comes after a step.
type Next struct {
	timerqueue.Again

	More bool // there may be another step to take at once
}

// Owner says whose turn it is.
type Owner interface {
	Owns(lane string) bool
}

// Needs is what an engine works with.
type Needs struct {
	What    string // is kept, for the log and for numbers: such as "appointment"
	Owner   Owner
	Replica string
	Now     func() time.Time
	Log     *slog.Logger
	Observe Observer // nil: nobody
}

// How what was due ended.
const (
	Fired     = "fired"     // it was done
	Failed    = "failed"    // it could not be, and never will
	Missed    = "missed"    // it was too late
	Cancelled = "cancelled" // by somebody
)

// Observer is told of what is counted.
type Observer interface {
	// Ended says how something ended that waited for its time, and how late.
	Ended(what, namespace, outcome string, late time.Duration)
}

// Engine keeps the records of a kind. Its methods may be called at once.
type Engine[T any] struct {
	kind   Kind[T]
	needs  Needs
	timers *timerqueue.Timers
	index  *index
	clock  *clock
	began  time.Time
	known  chan struct{} // closed once all records have been told

	knowing sync.Mutex // one record at a time becomes known, by its time and by its place

	mu     sync.Mutex
	coming map[string]int // records of a namespace that are being added
}

// New returns an engine. While its Run runs, what is due is done.
func New[T any](kind Kind[T], needs Needs) *Engine[T] {
	e := &Engine[T]{kind: kind, needs: needs, index: newIndex(), clock: newClock(needs.Now), began: needs.Now(), known: make(chan struct{}), coming: map[string]int{}}
	e.timers = timerqueue.New(e.Fire)
	return e
}

// Run does what is due until ctx is done. A watch tells of every record by its key, as it is and as it changes, nil when it is gone, until
// ctx ends; once all that are stored have been told, it says so with no key.
func (e *Engine[T]) Run(ctx context.Context, watch func(context.Context, func(key string, one *T)) error) error {
	var firing sync.WaitGroup
	defer firing.Wait()
	firing.Go(func() { e.watchClock(ctx) })
	var all sync.Once
	return watch(ctx, func(key string, one *T) {
		if key != "" {
			e.Know(key, one)
			return
		}
		all.Do(func() { // before, what is told first would be done first, whatever its time
			close(e.known)
			firing.Go(func() { _ = e.timers.Run(ctx) }) // which ends with ctx only
		})
	})
}

// watchClock reads the clock again and again until ctx is done. What was put off until a time is looked at anew when it has jumped: that time
// may be far away now.
func (e *Engine[T]) watchClock(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for seen := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.clock.doubted()
		if n := e.clock.jumped(); n != seen {
			seen = n
			d := e.clock.doubt()
			e.needs.Log.ErrorContext(ctx, "the clock has jumped: it is not trusted for a while", slog.String("what", e.needs.What), slog.Time("from", d.From), slog.Time("until", d.Until))
			e.timers.Recall()
		}
	}
}

// Waiting returns how many records of each namespace wait for their time.
func (e *Engine[T]) Waiting() map[string]int { return e.index.waiting() }

// Ended counts how something ended that was due at a time.
func (e *Engine[T]) Ended(namespace, outcome string, at time.Time) {
	if e.needs.Observe != nil {
		e.needs.Observe.Ended(e.needs.What, namespace, outcome, e.needs.Now().Sub(at))
	}
}

// Doubt returns the times of day at which the clock could not be believed the last time that it jumped.
func (e *Engine[T]) Doubt() Doubt { return e.clock.doubt() }

// Know takes what is stored of a record, nil if it is gone.
func (e *Engine[T]) Know(key string, one *T) {
	e.knowing.Lock()
	defer e.knowing.Unlock()
	if one == nil {
		e.timers.Remove(key)
		e.index.remove(key)
		return
	}
	entry := e.kind.Entry(key, one)
	if !e.timers.Set(entry) {
		return // more is known by now
	}
	if m, ok := e.kind.Mark(one); ok {
		e.index.set(entry.Group, key, entry.Order, m)
	} else {
		e.index.remove(key)
	}
}

// Known waits until all records have been told that there were when the server was started, and not longer than a few seconds. Code
// Unavailable.
func (e *Engine[T]) Known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knownLimit)
	defer cancel()
	select {
	case <-e.known:
		return nil
	case <-ctx.Done():
		return sluice.Errorf(sluice.Unavailable, "scheduled records are still loading; retry")
	}
}

// Marked returns the place of a record that is known and shown.
func (e *Engine[T]) Marked(key string) (Mark, bool) { return e.index.get(key) }

// After returns up to so many of a namespace's records behind a place, the next first, of those that are wanted.
func (e *Engine[T]) After(namespace string, place Mark, most int, want func(Mark) bool) []Mark {
	return e.index.after(namespace, place, most, want)
}

// Former reports whether a claim is this replica's from before it was started: what it was about is gone on with at once.
func (e *Engine[T]) Former(c *sluice.Claim) bool {
	return c.By == e.needs.Replica && c.At.Before(e.began)
}

// Grace returns how long to wait for whoever's turn it is; 0: it is this replica's.
func (e *Engine[T]) Grace(lane string) time.Duration {
	if e.needs.Owner.Owns(lane) {
		return 0
	}
	return action.BackupOf(e.needs.Replica, lane)
}

// Claim returns this replica's claim on what another one, or itself, may have claimed before.
func (e *Engine[T]) Claim(was *sluice.Claim) *sluice.Claim {
	now := e.needs.Now().UTC()
	is := &sluice.Claim{By: e.needs.Replica, Since: now, At: now, Tries: 1}
	if was != nil {
		is.Since, is.Tries, is.Sent = was.Since, was.Tries+1, was.Sent || was.Idle.IsZero() // of one that died it is not known
	}
	return is
}

// OnTheWay bounds how long after a try that failed the log may still get what was sent.
const OnTheWay = 10 * time.Second

// Stoppable reports whether what is claimed can be cancelled all the same: while doing it fails, nobody is at it between the tries, and whoever
// tries next claims it anew, and sees that it is over. If a try has sent something, stored is asked whether the log has it.
func (e *Engine[T]) Stoppable(c *sluice.Claim, stored func() (bool, error)) (bool, error) {
	switch {
	case c == nil:
		return true, nil
	case c.Idle.IsZero():
		return false, nil
	case !c.Sent:
		return true, nil
	case e.needs.Now().Sub(c.Idle) < OnTheWay:
		return false, nil
	}
	is, err := stored()
	return !is, err
}

// Rest returns a claim of which a try has failed: nobody is at it until the next one. Sent says whether that may have stored something.
func (e *Engine[T]) Rest(c *sluice.Claim, sent bool) *sluice.Claim {
	is := *c
	is.Idle, is.Sent = e.needs.Now().UTC(), c.Sent || sent
	return &is
}

// Reserve makes room for one record more, and returns false if a namespace has as many as it may, 0 for any number. Release gives
// the room back once the record is known, or is not to come.
func (e *Engine[T]) Reserve(namespace string, most int) (release func(), ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if most > 0 && e.timers.Count(namespace)+e.coming[namespace] >= most {
		return nil, false
	}
	e.coming[namespace]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.coming[namespace]--; e.coming[namespace] == 0 {
			delete(e.coming, namespace)
		}
	}, true
}

// Fire does with a record all that is to be done now, and returns when to look again.
func (e *Engine[T]) Fire(ctx context.Context, key string) timerqueue.Again {
	work, cancel := context.WithTimeout(shutdown.Lasting(ctx), action.MaxTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })()
	if e.clock.doubted() {
		return timerqueue.Again{At: e.needs.Now().Add(time.Second), Hold: true}
	}
	for range maxSteps {
		order := e.index.order(key)
		one, err := e.kind.Read(work, key)
		if sluice.CodeOf(err) == sluice.NotFound {
			e.index.removeOf(key, order) // whoever told of it did so late
			return timerqueue.Again{}
		}
		var next Next
		if err == nil {
			next, err = e.kind.Step(work, key, &one)
		}
		switch {
		case err == nil && !next.More:
			return next.Again
		case err == nil, sluice.CodeOf(err) == sluice.Conflict: // whoever was faster wrote what is read next
			continue
		}
		wait := action.Again(e.kind.Tries(&one))
		e.needs.Log.WarnContext(ctx, "due record not processed yet", slog.String("what", e.needs.What), slog.String("key", key), slog.Any("error", err), slog.Duration("again", wait))
		return timerqueue.Again{At: e.needs.Now().Add(wait)}
	}
	return timerqueue.Again{At: e.needs.Now().Add(action.Again(0))}
}
