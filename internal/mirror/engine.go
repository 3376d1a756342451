package mirror

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Engine syncs the mirrors that this process owns, a few at a time (S3-36). One timer serves all of
// them: a mirror that is not due costs only the memory of its record. mu guards the fields below it
// except changed, heads and running, and the fields of every job. It is not held during a request.
type Engine struct {
	deps   Deps
	opts   Options
	keeper *Keeper

	mu      sync.Mutex
	mirrors map[string]*job
	queue   queue // of the owned ones, by the time at which they are due
	busy    int
	holds   map[string]int // workers, by the namespace whose mirrors they sync
	changed chan struct{}  // has one element if the queue may have changed
	told    chan struct{}  // closed and replaced when a record arrives
	own     map[string]incarnation
	heads   heads
	edges   edges // of all replicas
	running sync.WaitGroup
}

// job is a mirror in the engine.
type job struct {
	record *Stored
	due    time.Time
	at     int // index in the queue; -1: not queued

	done     chan struct{} // closed when the present sync has ended; nil: none is running
	asked    bool          // a caller that does not wait has asked for the next one
	place    Place         // to sync from; zero: not read yet
	seen     Place         // the last known, for the status
	failures int
	err      error // of the last sync
	alarmed  bool  // the last published event says that syncs fail
}

// New returns an engine, which does nothing until Run, with the keeper of its mirrors.
func New(deps Deps, opts Options) *Engine {
	e := &Engine{
		deps: deps, opts: opts.filled(rand.Float64), changed: make(chan struct{}, 1), told: make(chan struct{}),
		mirrors: map[string]*job{}, holds: map[string]int{}, own: map[string]incarnation{}, edges: edges{},
		heads: heads{all: map[string]head{}},
	}
	e.keeper = &Keeper{deps: deps, engine: e, topics: newTopics(), now: e.opts.Now, log: e.opts.Log}
	return e
}

// Keeper returns the keeper of the engine's mirrors.
func (e *Engine) Keeper() *Keeper { return e.keeper }

// Run syncs mirrors until ctx is done, and returns when no sync is in progress.
func (e *Engine) Run(ctx context.Context) error {
	return supervise.Run(ctx, e.deps.Owns, supervise.Engine{
		Watches: []func(context.Context) error{func(ctx context.Context) error { return e.deps.Definitions.Watch(ctx, e.change) }},
		Changed: func(context.Context) <-chan struct{} { return e.owned() },
		Serve:   e.serve,
	})
}

// change applies a record that the store reports. It wakes every caller of await, because a record
// that arrives may be the one that it waits for.
func (e *Engine) change(id string, m *Stored) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.told)
	e.told = make(chan struct{})
	j := e.mirrors[id]
	switch {
	case m == nil:
		delete(e.mirrors, id)
		if j != nil {
			e.edges.drop(j.record.edge())
			e.heads.forget(j.record.Source)
			e.queue.drop(j)
		}
		e.opts.Observe.Forget(id)
		return
	case j == nil:
		j = &job{at: -1}
		e.mirrors[id] = j
	}
	was := j.record
	if was != nil && m.Revision < was.Revision { // a caller has provided a later one
		return
	}
	e.know(j, m)
	if was != nil && was.same(m) {
		return
	}
	j.place, j.failures, j.err = Place{}, 0, nil // the known place may be from before the change
	e.schedule(j, e.opts.Now())
}

// same reports whether a later record requires no new work. Either it is the same record, or only
// its system events were published.
func (s *Stored) same(later *Stored) bool {
	return s == later || len(later.Untold) == 0 && s.UpdatedAt.Equal(later.UpdatedAt) && s.Settled == later.Settled && s.Gone == later.Gone
}

// settleAfter is the time in which a creator must settle its mirror before the engine does so.
const settleAfter = time.Minute

// await waits until the engine has the record at a revision. It then also has all records that were
// stored earlier.
func (e *Engine) await(ctx context.Context, id string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	for {
		e.mu.Lock()
		j, told := e.mirrors[id], e.told
		known := j != nil && j.record.Revision >= revision
		e.mu.Unlock()
		if known {
			return nil
		}
		select {
		case <-told:
		case <-ctx.Done():
			return sluice.Errorf(sluice.Unavailable, "the mirrors of the server are not known at the moment; retry")
		}
	}
}

const awaitLimit = 10 * time.Second

// know replaces the record of a mirror by a later one. The caller holds the lock.
func (e *Engine) know(j *job, m *Stored) {
	if j.record != nil { // a mirror that was deleted and created again may have another source
		e.edges.drop(j.record.edge())
	}
	if j.record = m; !m.Gone {
		e.edges.set(m.edge())
	}
}

func (s *Stored) edge() Edge {
	return Edge{ID: s.ID, Subscriber: s.Namespace, Source: s.Source, Settled: s.Settled, Revision: s.Revision}
}

// conflict returns an error if a new mirror conflicts with the mirrors of all replicas.
func (e *Engine) conflict(one Edge) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.edges.conflict(one)
}

// of returns the ids of the mirrors of a namespace, including those that other replicas sync.
func (e *Engine) of(namespace string) (ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, mirrors := range e.edges[namespace] {
		for id := range mirrors {
			ids = append(ids, id)
		}
	}
	return ids
}

// owned applies a change of ownership. The returned channel is closed once no sync of a mirror that
// this process has lost is in progress.
func (e *Engine) owned() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	var leaving []<-chan struct{}
	for id, j := range e.mirrors {
		if e.deps.Owns.Owns(id) {
			if j.at < 0 && j.done == nil {
				e.schedule(j, e.opts.Now())
			}
			continue
		}
		e.queue.drop(j)
		j.place, j.seen = Place{}, Place{} // another replica continues it
		if j.done != nil {
			leaving = append(leaving, j.done)
		}
	}
	settled := make(chan struct{})
	if len(leaving) == 0 {
		close(settled)
		return settled
	}
	e.running.Go(func() {
		defer close(settled)
		for _, done := range leaving {
			<-done
		}
	})
	return settled
}

// schedule makes a mirror due at a time, if this process has work for it. The caller holds the
// lock.
func (e *Engine) schedule(j *job, at time.Time) {
	m := j.record
	if creators := m.CreatedAt.Add(settleAfter); !m.Settled && !m.Gone && at.Before(creators) {
		at = creators
	}
	work := m.State == sluice.Active || m.Gone || len(m.Untold) > 0
	if !work || !e.deps.Owns.Owns(m.ID) {
		e.queue.drop(j)
		return
	}
	e.queue.set(j, at)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// serve syncs due mirrors until ctx ends, and returns when no sync is in progress.
func (e *Engine) serve(ctx context.Context) {
	defer e.running.Wait()
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		clock.Reset(e.begin(ctx))
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		case <-e.changed:
		}
	}
}

// begin starts the work of due mirrors, and returns the time until the next one is due.
func (e *Engine) begin(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Now()
	for len(e.queue) > 0 && e.busy < e.opts.Workers {
		j := e.queue[0]
		if wait := j.due.Sub(now); wait > 0 {
			return max(wait, tick) // many may be due in each second
		}
		switch namespace := j.record.Namespace; {
		case j.done != nil: // a caller syncs it; it is scheduled again afterwards
			e.queue.drop(j)
		case e.holds[namespace] >= max(1, e.opts.Workers/2): // slow sources of one namespace must leave workers to others
			e.queue.set(j, now.Add(putOff))
		case e.polled(j, now): // by another mirror
		default:
			e.queue.drop(j)
			e.work(ctx, j, namespace)
		}
	}
	return time.Hour
}

// tick is the resolution of the timer.
const tick = 250 * time.Millisecond

// putOff delays a mirror whose namespace already has half of the workers.
const putOff = time.Second

// work starts a worker for a mirror's turn. The caller holds the lock.
func (e *Engine) work(ctx context.Context, j *job, namespace string) {
	e.busy++
	e.holds[namespace]++
	e.running.Go(func() {
		e.turn(ctx, j)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.busy--
		if e.holds[namespace]--; e.holds[namespace] == 0 {
			delete(e.holds, namespace)
		}
		select {
		case e.changed <- struct{}{}:
		default:
		}
	})
}

// turn does the pending work of a mirror: it removes, settles or syncs it.
func (e *Engine) turn(ctx context.Context, j *job) {
	record, place, busy := e.enter(j)
	if busy != nil {
		return
	}
	is := outcome{place: place}
	switch {
	case record.Gone:
		is.err = e.keeper.bury(ctx, record)
	case !record.Settled:
		_, is.err = e.keeper.settle(ctx, record)
	case len(record.Untold) > 0:
		is.err = e.keeper.tell(ctx, record)
	}
	if is.err == nil && record.State == sluice.Active && record.Settled && !record.Gone {
		is = e.heard(ctx, &record.Mirror, e.pull(ctx, &record.Mirror, place, sharedAge(&record.Mirror)))
	}
	e.leave(ctx, j, record, is)
}

// heard publishes that a mirror is stale, if it is: after each turn of a mirror that gets bundles,
// otherwise after a failed sync. It returns the outcome of a failed sync unchanged.
func (e *Engine) heard(ctx context.Context, m *sluice.Mirror, is outcome) outcome {
	if !m.Imported() && is.err == nil || ctx.Err() != nil {
		return is
	}
	at, err := e.tellStale(ctx, m)
	if m.Imported() {
		return outcome{place: at, err: err}
	}
	if err != nil {
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "stale mirror not published", slog.String("mirror", m.ID), slog.Any("error", err))
	}
	return is
}

// enter marks a mirror as being synced. If a sync is already running, enter returns busy, which is
// closed when that sync has ended.
func (e *Engine) enter(j *job) (record *Stored, at Place, busy <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j.done != nil {
		return nil, Place{}, j.done
	}
	j.done, j.asked = make(chan struct{}), false
	return j.record, j.place, nil
}

// leave records the outcome of a sync, and schedules the next one. It must be called exactly once
// after each enter that was not busy.
func (e *Engine) leave(ctx context.Context, j *job, record *Stored, is outcome) {
	err := is.err
	stopped, isStop := errors.AsType[*Stop](err)
	if isStop && ctx.Err() == nil {
		is.more, err = false, e.keeper.suspend(ctx, record, stopped)
	}
	if sluice.CodeOf(err) == sluice.SubscriptionMissing { // it was deleted meanwhile
		err = nil
	} else if ctx.Err() == nil {
		e.report(ctx, j, record, err, isStop)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(j.done)
	j.done = nil
	if ctx.Err() != nil {
		if j.at < 0 && e.mirrors[record.ID] == j { // it became due meanwhile
			e.schedule(j, e.opts.Now())
		}
		return
	}
	j.place, j.err = is.place, err
	if is.place.Revision > 0 {
		j.seen = is.place
	}
	wait := j.next(err, is.more, e.wait(j.record, &is.place))
	changed := !record.same(j.record) || e.mirrors[record.ID] != j
	if changed {
		wait = 0
	}
	if changed || isStop || err != nil {
		j.place = Place{} // read it again
	}
	if e.mirrors[record.ID] == j {
		e.schedule(j, e.opts.Now().Add(wait))
	}
}

// Sync syncs a mirror now, until it has reached the end of its source or ctx ends. This process
// need not own the mirror. A page that suspends the mirror is not an error of Sync. Codes: those of
// the source; MirrorSuspended; SubscriptionMissing; Unavailable while the mirror is being created.
// Sync waits for a running sync of the mirror, and then reads again, because that one may have read
// the source before the call.
func (e *Engine) Sync(ctx context.Context, m *Stored) error {
	j := e.job(m)
	record, place, busy := e.enter(j)
	for busy != nil { // the running sync may have read before this call
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		record, place, busy = e.enter(j)
	}
	if err := syncable(record); err != nil {
		e.leave(ctx, j, record, outcome{place: place})
		return err
	}
	is := outcome{place: place, more: true}
	for is.more && is.err == nil && syncable(record) == nil {
		if is = e.pull(ctx, &record.Mirror, is.place, 0); e.superseded(&record.Mirror) {
			record, is.place = e.latest(record), Place{}
		}
	}
	e.leave(ctx, j, record, is)
	if _, stopped := errors.AsType[*Stop](is.err); stopped {
		return nil // the mirror is suspended, as its status says
	}
	return is.err
}

// syncable returns an error unless a mirror may be synced.
func syncable(m *Stored) error {
	switch {
	case m.Gone:
		return sluice.Errorf(sluice.SubscriptionMissing, "the mirror was deleted")
	case !m.Settled:
		return sluice.Errorf(sluice.Unavailable, "the mirror is being created; retry")
	case m.State != sluice.Active:
		return sluice.Errorf(sluice.MirrorSuspended, "the mirror is suspended (%s); resume it first", m.Reason)
	}
	return nil
}

// SyncShared is Sync, but returns at once if another SyncShared of the mirror has not begun yet:
// that one serves both callers. Then nil does not mean that the other sync succeeds.
func (e *Engine) SyncShared(ctx context.Context, m *Stored) error {
	j := e.job(m)
	e.mu.Lock()
	asked := j.asked
	j.asked = true
	e.mu.Unlock()
	if asked {
		return nil
	}
	return e.Sync(ctx, m)
}

// job returns the job of a mirror, with the later of the known and the given record. A mirror that
// this process does not know, because it was just created or deleted, gets a job outside the
// engine.
func (e *Engine) job(m *Stored) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.mirrors[m.ID]
	if j == nil {
		return &job{at: -1, record: m}
	}
	if j.record.Revision < m.Revision { // the store has not reported it yet
		e.know(j, m)
		j.place = Place{}
	}
	return j
}
