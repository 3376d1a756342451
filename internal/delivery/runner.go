package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/fairsem"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	holdEvery   = 10 * time.Second // a third of the consumers' acknowledgement timeout
	drainLimit  = 65 * time.Second // the longest timeout of an attempt, plus time to record it
	recordLimit = 10 * time.Second // limit of waiting for the store: longer than a fail-over of NATS
	hogPatience = time.Second      // a lane that fills the window is parked after this
)

// errSourceEnded tells the engine to open the subscription's source again.
var errSourceEnded = errors.New("the source of deliveries ended")

// errMoved tells the engine the same, because the subscription gets its events from another source
// now.
var errMoved = errors.New("the source of deliveries changed")

// errGone tells the engine that there is nothing left to serve.
var errGone = errors.New("the endpoint is gone")

var errUnrecorded = errors.New("attempts in flight did not end in time")

// runner serves one subscription while run runs. It executes the decisions of its dispatcher, and
// enters the results. Only the goroutine of run uses the dispatcher.
type runner struct {
	dispatcher

	id       string
	ordering sluice.Ordering // constant: the keys of lanes depend on it
	program  bool            // constant: the subscription runs a program, so share has permits of programs
	began    time.Time       // constant: Began of the subscription that the source is opened for

	ports    Deps
	outbound *outbound // the way to the endpoint; ports has no sender
	workers  *workers  // execute its tasks
	observe  Observer
	log      *slog.Logger
	changed  chan *sluice.Subscription // updates from the engine; the last one wins
	acts     chan *act
	opened   uint64        // the last spell of the breaker that was announced
	proving  atomic.Bool   // a success outside the deliveries is being entered
	unsaved  chan struct{} // receives a value if the store has lost the records of parked lanes

	lookEvery time.Duration

	// Set for a replay, see replaying.
	lanesOf  string // key prefix of its lanes; for live deliveries the subscription's id
	only     func(*sluice.Event) bool
	rate     sluice.Rate
	conclude func(context.Context) error // stores that everything was delivered; nil: no replay

	match     *filter.Matcher
	left      []model.ParkedEntry // unfinished lanes of the previous run
	source    Source
	rests     Resting                   // the source if it is Resting, else nil
	resting   atomic.Bool               // the runner is ending, or has ended, because it has no work
	active    bool                      // something has come since the last check whether to rest
	recovered map[uint64]model.Progress // progress at the start according to the attempt log; read-only
	covered   map[string]reach          // by lane that was parked at the start: the sequences that its record covers
	recent    recentSet
	recalled  bool
	failures  int               // consecutive failures to open
	stored    model.Health      // last stored health
	storing   bool              // a write is in progress, or was made within saveEvery
	stores    chan healthStored // outcome of the write
	nextStore <-chan time.Time  // ends the pause after a write
	results   chan *result
	busy      sync.WaitGroup                      // tasks, and other work outside the loop
	lost      atomic.Pointer[sluice.Subscription] // the settings with which access was lost since opening; nothing is sent then
	sending   atomic.Int32
	ahead     budget
	share     *fairsem.Share // of the process's permits for attempts
	verdicts  *verdicts
	exhausted atomic.Int32 // consecutive events on which the filter exceeded its cost limit
	looking   sync.Mutex
	watched   atomic.Pointer[expiryScan] // a scan with the current settings

	mu      sync.Mutex
	gauges  model.DeliveryGauges
	oldest  time.Time // oldest event that is held or parked; zero: none
	looked  time.Time // when oldest and retries were computed
	retries int       // parked lanes with another attempt within an hour
}

func newRunner(sub *sluice.Subscription, ports Deps, opts Options, ahead *atomic.Int64, share *fairsem.Share) *runner {
	return &runner{
		id: sub.ID, ordering: sub.Policy.Ordering, program: runsProgram(sub), began: sub.Began(),
		dispatcher: dispatcher{sub: sub, pacer: ports.Pace, places: share},
		ports:      ports, observe: opts.Observe, log: opts.Log,
		changed: make(chan *sluice.Subscription, 1), acts: make(chan *act), unsaved: make(chan struct{}, 1),
		gauges:   model.DeliveryGauges{Namespace: sub.Namespace, Subscription: sub.ID},
		verdicts: newVerdicts(),
		ahead:    budget{shared: ahead}, share: share, lookEvery: opts.LookEvery, lanesOf: sub.ID,
	}
}

// runsProgram reports whether the attempts of a subscription are runs of a module's program.
func runsProgram(sub *sluice.Subscription) bool { return len(sub.Endpoint.Exec) > 0 }

// change replaces the subscription's settings; the last call wins.
func (r *runner) change(sub *sluice.Subscription) {
	select {
	case <-r.changed:
	default:
	}
	r.changed <- sub
}

// run serves the subscription until ctx is done, which is not an error, or until it cannot
// continue. Before it returns, attempts in flight finish and their results are stored.
func (r *runner) run(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return &openError{err}
	}
	defer r.source.Close()
	work, cancel := context.WithCancel(shutdown.Lasting(ctx))
	defer r.ahead.reset()
	defer r.busy.Wait()
	defer cancel()
	err := r.serve(ctx, work)
	err = errors.Join(err, r.drain(work))
	if errors.Is(err, errLanesLost) {
		err = errors.Join(err, r.saveLanes(work))
	}
	r.left = r.lanes.unfinished()
	r.lanes.abandon()
	r.leave(work)
	r.source.Close()          // before the last scan, which then covers the events that it did not hand out
	if r.lost.Load() != nil { // lost access takes precedence over other failures; no event becomes a dead letter then
		return errors.Join(err, errLost)
	}
	r.looking.Lock() // waits for a scan in progress
	defer r.looking.Unlock()
	r.scanExpired(work, lastLook)
	return err
}

// open reads the subscription's stored lanes and opens its source.
func (r *runner) open(ctx context.Context) error {
	sub := r.sub
	select {
	case sub = <-r.changed: // new settings may fix a failure to open
	default:
	}
	sub, match, err := r.compiled(ctx, sub)
	if err != nil {
		return err
	}
	r.configure(sub, match)
	err = r.watched.Load().before(ctx)
	if sluice.CodeOf(err) == sluice.QuotaExceeded { // the store is full, but deliveries need no space
		r.log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", r.id), slog.Any("error", err))
	} else if err != nil {
		return err
	}
	source, err := r.ports.Sources.Open(ctx, r.sub)
	if err != nil {
		return err
	}
	r.source = source
	r.rests, _ = source.(Resting)
	if err := r.restore(ctx); err != nil {
		source.Close()
		return err
	}
	r.breaker = r.breaker.resetAfterRestart()
	r.lost.Store(nil)
	r.storing, r.nextStore, r.stores = false, nil, make(chan healthStored, 1)
	r.results = make(chan *result, r.sub.Policy.MaxPending()) // each task has one result, so that sending it never blocks
	return nil
}

func (r *runner) restore(ctx context.Context) error {
	parked, err := r.remembered(ctx)
	if err != nil {
		return err
	}
	r.lanes = newLaneTable(r.sub.Policy.MaxPending())
	r.lanes.batch, r.lanes.debounce = r.sub.Policy.Batch, r.debounce(r.sub)
	if r.ordering != sluice.OrderAll {
		r.lanes.patience = hogPatience
	}
	r.recent.size = 4 * r.sub.Policy.MaxPending()
	r.covered = make(map[string]reach, len(parked))
	defer r.coverSuperseded()
	for _, e := range parked {
		seen := r.source.Seen(e.Path)
		if streams.IsEventLane(r.lanesOf, e.Lane) {
			seen = e.FromSeq
		}
		r.covered[e.Lane] = reach{e.FromSeq, seen}
		r.lanes.load(e, seen, time.Now())
		if e.Held != "" {
			d := heldLetter(r.sub, &e.Parked, &sluice.Event{ID: e.EventID, Seq: e.FromSeq, Path: e.Path})
			d.At = e.HeldAt.UTC()
			r.ports.Announce.StillHeld(r.sub, &d)
		}
	}
	return nil
}

// remembered reads the stored state of the subscription, unless the source knows that there is
// none, and returns its parked lanes.
func (r *runner) remembered(ctx context.Context) (parked []model.ParkedEntry, err error) {
	if r.rests != nil && r.rests.Clean() {
		r.recovered, r.left = nil, nil
		return nil, nil
	}
	if r.rests != nil && len(r.left) == 0 {
		if past, known := r.rests.Past(); known {
			r.recovered = past
			return nil, nil
		}
	}
	if err := r.restoreHealth(ctx); err != nil {
		return nil, err
	}
	if parked, err = r.reclaim(ctx); err != nil {
		return nil, err
	}
	after := r.source.Floor()
	for _, e := range parked {
		after = min(after, max(e.FromSeq, 1)-1)
	}
	r.recovered, err = r.ports.Log.Recover(ctx, r.sub, after)
	return parked, err
}

func (r *runner) configure(sub *sluice.Subscription, match *filter.Matcher) {
	if r.conclude != nil && sub.Policy.OnDead == sluice.DeadHolds { // operators would not look for held lanes in a replay
		giving := *sub
		giving.Policy.OnDead = sluice.DeadContinues
		sub = &giving
	}
	r.adopt(sub, r.rate, r.match == nil)
	r.match = match
	r.watched.Store(&expiryScan{sub: sub, match: match, ports: r.ports, opts: Options{Observe: r.observe, Log: r.log}})
}

// serve is the loop of the runner. It ends when ctx is done, when there is no work left, or after a
// failure that the runner cannot fix.
func (r *runner) serve(ctx, work context.Context) error {
	t := r.timers()
	defer t.stop()
	defer r.share.Pass()
	exhausted := r.source.Exhausted()
	for quick := 0; exhausted != nil || !r.replayed(); {
		r.dispatch(work, t)
		r.storeHealth(work)
		r.publishGauges()
		switch busy, err := r.hurry(ctx, work, &quick); {
		case err != nil:
			return err
		case busy:
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.source.Ended():
			return r.ended()
		case <-exhausted:
			exhausted = nil
		case d := <-r.source.Deliveries():
			r.arrive(work, d)
		case res := <-r.results:
			if err := r.take(ctx, work, res); err != nil {
				return err
			}
		case <-r.verdicts.news:
			r.applyVerdicts()
		case <-r.unsaved:
			return errors.Join(errLanesLost, r.saveLanes(work))
		case now := <-t.beat.C:
			if r.beat(now) {
				return errResting
			}
		case <-t.due():
		case <-r.share.Freed():
		case a := <-r.acts:
			r.takeAct(work, a)
		case s := <-r.written():
			r.healthWritten(ctx, s)
		case <-r.nextStore:
			r.storing, r.nextStore = false, nil
		case <-t.looks.C:
			r.lookAside(work)
		case sub := <-r.changed:
			if err := r.reconfigure(sub); err != nil {
				return err
			}
			r.reconsider(work)
		}
	}
	return errReplayed
}

// mostQuick is how many consecutive turns of the loop consider only deliveries and results.
const mostQuick = 16

// hurry handles a result or a delivery that is available, and reports whether there was one. It
// ignores all other channels, because a select on all of them costs as much as the decisions for an
// attempt.
func (r *runner) hurry(ctx, work context.Context, quick *int) (busy bool, err error) {
	if *quick++; *quick > mostQuick {
		*quick = 0
		return false, nil
	}
	select {
	case <-ctx.Done():
		return false, nil
	default:
	}
	select {
	case res := <-r.results:
		return true, r.take(ctx, work, res)
	default:
	}
	select {
	case d := <-r.source.Deliveries():
		r.arrive(work, d)
		return true, nil
	default:
	}
	*quick = 0
	return false, nil
}

// ended returns the error for a source that has ended.
func (r *runner) ended() error {
	if m, ok := r.source.(Moving); ok && m.Moved() {
		return errMoved
	}
	return errSourceEnded
}

// lookAside scans for events that left the log, in another goroutine, unless a scan is in progress.
func (r *runner) lookAside(work context.Context) {
	if r.looking.TryLock() {
		r.busy.Go(func() {
			defer r.looking.Unlock()
			r.scanExpired(work, holdEvery)
		})
	}
}

// replayed reports whether the runner is that of a replay and has no lane left.
func (r *runner) replayed() bool { return r.conclude != nil && r.lanes.empty() }

// reconfigure applies changed settings.
func (r *runner) reconfigure(sub *sluice.Subscription) error {
	pending := r.sub.Policy.MaxPending()
	match, err := r.ports.Filters.CompileNow(sub.Filter, r.ports.Labels)
	if err != nil {
		return err
	}
	r.configure(sub, match)
	r.lanes.batch, r.lanes.debounce = sub.Policy.Batch, r.debounce(sub)
	if pending != sub.Policy.MaxPending() {
		return errSourceEnded // the window has changed, so the source has to be opened again
	}
	return nil
}

// settle enters a result, acknowledges the deliveries that it settled or parked, and judges the
// attempt.
func (r *runner) settle(ctx context.Context, res *result) error {
	if res.err != nil {
		r.lanes.busy--
		return res.err
	}
	if res.kind == resultDiscarded {
		r.recent.add(res.lane.park.FromSeq)
	}
	acks := r.enter(res, time.Now())
	if res.kind == resultSettled {
		for _, d := range acks {
			r.recent.add(d.Event.Seq)
		}
	}
	for _, d := range acks {
		r.answer(d.Receipt.Ack())
	}
	r.recordOutcome(ctx, res.lane, res.attempt)
	if res.blocked {
		return r.applyDecision(ctx, res.decision)
	}
	if res.attempt != nil {
		r.gateBackoff = 0
	}
	return r.judge(ctx, res.attempt)
}

// drain waits for the tasks in progress, so that attempts are recorded. If all of them wait only
// for the store, the limit is shorter, because the store may not come back.
func (r *runner) drain(work context.Context) error {
	if r.lanes.busy == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(work, drainLimit)
	defer cancel()
	stuck := time.NewTimer(recordLimit)
	defer stuck.Stop()
	for r.lanes.busy > 0 {
		select {
		case <-ctx.Done():
			shutdown.Left(work, "deliveries", r.lanes.busy)
			return errUnrecorded
		case <-stuck.C:
			if r.sending.Load() == 0 {
				shutdown.Left(work, "deliveries", r.lanes.busy)
				return errUnrecorded
			}
			stuck.Reset(recordLimit)
		case res := <-r.results:
			stuck.Reset(recordLimit)
			if err := r.settle(ctx, res); err != nil && !errors.Is(err, errLost) && !shutdown.Left(work, "deliveries", 1) {
				r.log.WarnContext(ctx, "attempt in flight was cancelled", slog.String("subscription", r.sub.ID), slog.Any("error", err))
			}
		}
	}
	return nil
}

// forget deletes the records of lanes and health that attempts in flight stored after the
// subscription was deleted or cancelled.
func (r *runner) forget(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	parked, err := r.ports.Lanes.Parked(limit, r.sub)
	for _, e := range parked {
		if gone := r.ports.Lanes.Unpark(limit, e.Lane, e.Revision); sluice.CodeOf(gone) != sluice.Conflict {
			err = errors.Join(err, gone)
		}
	}
	if r.stored != (model.Health{}) {
		err = errors.Join(err, r.ports.Healths.PutHealth(limit, r.sub, model.Health{}))
	}
	if err != nil {
		r.log.WarnContext(limit, "not removed from the store", slog.String("subscription", r.id), slog.Any("error", err))
	}
}

// answer logs a failed acknowledgement. The delivery comes again.
func (r *runner) answer(err error) {
	if err != nil {
		r.log.Debug("acknowledgement lost", slog.String("subscription", r.sub.ID), slog.Any("error", err))
	}
}
