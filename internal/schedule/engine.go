package schedule

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// endLimit is how long steps in progress may continue when the server stops.
const endLimit = 5 * time.Second

// knownLimit limits how long Known waits on a server that has just started.
const knownLimit = 10 * time.Second

// maxSteps limits the steps of one call of Fire. No record needs more: an appointment is announced,
// noticed, announced, fired, announced, and some steps are repeated after a race.
const maxSteps = 12

// Kind defines the records of one kind.
type Kind[T any] interface {
	// Read returns the stored record of a key. Code NotFound if there is none.
	Read(ctx context.Context, key string) (T, error)
	// Entry returns when to inspect a record, its lane and its namespace.
	Entry(key string, one *T) timerqueue.Entry
	// Mark returns a record's position in the list of its namespace, and false if the list does not
	// show it.
	Mark(one *T) (Mark, bool)
	// Step executes a record's next step, and returns how to continue. Code Conflict after a
	// concurrent change.
	Step(ctx context.Context, key string, one *T) (Next, error)
	// Tries returns the number of attempts at the present step.
	Tries(one *T) int
}

// Next is the continuation after a step.
type Next struct {
	timerqueue.Again

	More bool // another step may be due at once
}

// Outcomes of due records.
const (
	Fired     = "fired"     // done
	Failed    = "failed"    // failed for good
	Missed    = "missed"    // too late
	Cancelled = "cancelled" // on request
)

// Engine runs the records of a kind. It is safe for concurrent use.
type Engine[T any] struct {
	what   string // the kind's name for logs and metrics, such as "appointment"
	kind   Kind[T]
	needs  Deps
	opts   Options
	timers *timerqueue.Timers
	index  *index
	clock  *clock
	full   outage
	pauses pauses
	began  time.Time
	known  chan struct{} // closed once all stored records have been reported

	knowing sync.Mutex // held while a record is entered into both timers and index

	mu     sync.Mutex
	coming map[string]int // records of a namespace that are being added
}

// New returns an engine. It acts while Run runs.
func New[T any](what string, kind Kind[T], needs Deps, opts Options) *Engine[T] {
	e := &Engine[T]{what: what, kind: kind, needs: needs, opts: opts.WithDefaults(), index: newIndex(), clock: newClock(needs.Now), began: needs.Now(), known: make(chan struct{}), pauses: pauses{by: map[string]*pause{}}, coming: map[string]int{}}
	e.timers = timerqueue.New(e.Fire)
	return e
}

// Run executes due steps until ctx is done. watch calls its function with the key and the state of
// every stored record, then with each change, and with nil for a record that is gone, until ctx
// ends. Once it has reported all stored records, it calls the function with an empty key.
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
		all.Do(func() { // if timers ran earlier, the first record reported would run first, regardless of its time
			close(e.known)
			firing.Go(func() { _ = e.timers.Run(ctx) }) // it returns only when ctx ends
		})
	})
}

// watchClock reads the clock repeatedly until ctx is done. After a jump it reconsiders postponed
// records: their times may be far away now.
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
			e.opts.Log.ErrorContext(ctx, "the clock has jumped: it is not trusted for a while", slog.String("what", e.what), slog.Time("from", d.From), slog.Time("until", d.Until))
			e.timers.Recall()
		}
	}
}

// Waiting returns the number of waiting records of each namespace.
func (e *Engine[T]) Waiting() map[string]int { return e.index.waiting() }

// Ended reports the outcome of a record that was due at a time to the observer.
func (e *Engine[T]) Ended(namespace, outcome string, at time.Time) {
	if e.opts.Observe != nil {
		e.opts.Observe.Ended(e.what, namespace, outcome, e.needs.Now().Sub(at))
	}
}

// Doubt returns the range of times for which the clock was not trusted after its last jump.
func (e *Engine[T]) Doubt() Doubt { return e.clock.doubt() }

// Know enters the stored state of a record into timers and index; nil removes it. It ignores a
// revision older than the known one.
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
		return // a newer revision is known
	}
	if m, ok := e.kind.Mark(one); ok {
		e.index.set(entry.Group, key, entry.Order, m)
	} else {
		e.index.remove(key)
	}
}

// Known waits until all records that existed when the server started have been reported. Code
// Unavailable if that takes longer than knownLimit.
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

// Marked returns the position of a known, listed record.
func (e *Engine[T]) Marked(key string) (Mark, bool) { return e.index.get(key) }

// After returns up to most records of a namespace behind a position for which want returns true,
// the earliest first.
func (e *Engine[T]) After(namespace string, place Mark, most int, want func(Mark) bool) []Mark {
	return e.index.after(namespace, place, most, want)
}

// Former reports whether this replica made a claim before its restart. Then it continues the work
// at once.
func (e *Engine[T]) Former(c *sluice.Claim) bool {
	return c.By == e.needs.Replica && c.At.Before(e.began)
}

// Resume returns when this replica inspects a claimed record that is reported to it: after its own
// failed attempt at the next one, else when the claim expires, in case the claimant died.
func (e *Engine[T]) Resume(c *sluice.Claim) time.Time {
	if c.By == e.needs.Replica && !c.Idle.IsZero() {
		return c.Idle.Add(action.Again(c.Tries))
	}
	return c.At.Add(action.ClaimFor)
}

// Grace returns how long to wait for the replica that is responsible for a lane; 0 if this one is.
func (e *Engine[T]) Grace(lane string) time.Duration {
	if e.needs.Owner.Owns(lane) {
		return 0
	}
	return action.BackupOf(e.needs.Replica, lane)
}

// Claim returns this replica's claim on a record that may have been claimed before.
func (e *Engine[T]) Claim(was *sluice.Claim) *sluice.Claim {
	now := e.needs.Now().UTC()
	is := &sluice.Claim{By: e.needs.Replica, Since: now, At: now, Tries: 1}
	if was != nil {
		is.Tries = was.Tries + 1
	}
	if since := Sent(was); !since.IsZero() {
		is.Since, is.Sent = since, true
	}
	return is
}

// Sent returns the time since which the attempts at a record may have stored its event; zero if
// none may have: each failed before the event was sent.
func Sent(c *sluice.Claim) time.Time {
	if c == nil || !c.Sent && !c.Idle.IsZero() { // a replica that died may have sent it
		return time.Time{}
	}
	return c.Since
}

// OnTheWay is how long after a failed attempt its event may still reach the log.
const OnTheWay = 10 * time.Second

// Stoppable reports whether a record can be cancelled although it was claimed. Between failed
// attempts no replica works on it, and the next attempt claims it again and so sees the
// cancellation. If an attempt may have sent the event, Stoppable calls stored, which reports
// whether the log has it.
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

// Rest returns the claim after a failed attempt: no replica works on the record until the next
// attempt. sent says whether the attempt may have stored an event.
func (e *Engine[T]) Rest(c *sluice.Claim, sent bool) *sluice.Claim {
	is := *c
	is.Idle, is.Sent = e.needs.Now().UTC(), c.Sent || sent
	return &is
}

// Reserve makes room for one more record. Code QuotaExceeded if a namespace has reached its limit;
// remedy completes "namespace acme has 10". Call release once the record is known, or was not
// stored.
func (e *Engine[T]) Reserve(namespace, remedy string) (release func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if most := e.opts.Most; most > 0 && e.timers.Count(namespace)+e.coming[namespace] >= most {
		return nil, sluice.Errorf(sluice.QuotaExceeded, "namespace %s has %d %s", namespace, most, remedy).With("limit", most).With("retry_after", fullRetry)
	}
	e.coming[namespace]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.coming[namespace]--; e.coming[namespace] == 0 {
			delete(e.coming, namespace)
		}
	}, nil
}

// fullRetry is the Retry-After of a full namespace, in seconds.
const fullRetry = 60

// Fire executes a record's due steps, and returns when to call it again for this record.
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
			e.index.removeOf(key, order) // the report of it came after its removal
			return timerqueue.Again{}
		}
		tries := e.kind.Tries(&one)
		var next Next
		if err == nil {
			next, err = e.kind.Step(work, key, &one)
		}
		switch {
		case err == nil && !next.More:
			if e.full.accepted(key) {
				e.timers.Recall()
			}
			return next.Again
		case err == nil, sluice.CodeOf(err) == sluice.Conflict: // the concurrent write is read next
			continue
		}
		return e.failed(ctx, key, tries, &one, err)
	}
	return timerqueue.Again{At: e.needs.Now().Add(action.Again(0))}
}

// failed logs that a step of a record with a number of attempts failed, and returns when to call
// Fire again. Refusals of a full store are logged once in an outage. If the record could not store
// this attempt, it and the later ones of its lane wait in memory.
func (e *Engine[T]) failed(ctx context.Context, key string, was int, one *T, err error) timerqueue.Again {
	now, tries := e.needs.Now(), e.kind.Tries(one)
	again, level := timerqueue.Again{At: now.Add(action.Again(tries))}, slog.LevelWarn
	if p, ok := errors.AsType[pausedError](err); ok {
		again.At = now.Add(p.wait)
		if errors.Is(p, errPaused) {
			level = slog.LevelDebug
		}
	}
	if sluice.IsFull(err) {
		pause, begins := e.full.refused(key, now)
		if !begins {
			level = slog.LevelDebug
		}
		if tries == was {
			again = timerqueue.Again{At: now.Add(pause), Hold: true}
		}
	}
	e.opts.Log.Log(ctx, level, "due record not processed yet", slog.String("what", e.what), slog.String("key", key), slog.Any("error", err), slog.Duration("again", again.At.Sub(now)))
	return again
}
