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
	holdEvery   = 10 * time.Second // a third of the consumers' ack wait
	drainLimit  = 65 * time.Second // an attempt's longest timeout, and time to record it
	recordLimit = 10 * time.Second // without an attempt in flight: longer than a fail-over of NATS takes
	hogPatience = time.Second      // a lane that fills the window is parked after this
)

// errSourceEnded tells the engine to open the subscription's source again.
var errSourceEnded = errors.New("the source of deliveries ended")

// errMoved tells the engine the same: the subscription gets its events from another source now.
var errMoved = errors.New("the source of deliveries changed")

// errGone tells the engine that there is nothing left to serve.
var errGone = errors.New("the endpoint is gone")

var errUnrecorded = errors.New("attempts in flight did not end in time")

// runner serves one subscription while run is running: it executes the decisions of its dispatcher,
// and enters what comes of them. Only run's goroutine touches the dispatcher.
type runner struct {
	dispatcher

	id       string
	ordering sluice.Ordering // never changes: lanes are named after it
	program  bool            // never changes: its permits are those of programs, or of requests
	began    time.Time       // of the subscription; never changes: the source is opened for it

	ports    Deps
	outbound *outbound // the way to the endpoint; ports has no sender
	workers  *workers  // for its tasks
	observe  Observer
	log      *slog.Logger
	changed  chan *sluice.Subscription // the engine's updates; the last one wins
	acts     chan *act
	opened   uint64        // the breaker's last spell that was announced
	proving  atomic.Bool   // a success beside the deliveries is being entered
	unsaved  chan struct{} // has an element if the store has lost the records of parked lanes

	lookEvery time.Duration

	// Of a replay, see replaying.
	lanesOf  string // its lanes' key prefix; for live deliveries the subscription's id
	only     func(*sluice.Event) bool
	rate     sluice.Rate
	conclude func(context.Context) error // stores that everything was delivered

	match     *filter.Matcher
	left      []model.ParkedEntry // unfinished lanes of the previous run
	source    Source
	rests     Resting                   // the source, if it can be left while nothing comes; else nil
	resting   atomic.Bool               // the runner ends, or has ended, because it has no work
	active    bool                      // something came since the last look whether it can rest
	recovered map[uint64]model.Progress // attempt log's progress at the start; read only
	covered   map[string]reach          // by lane that was parked at the start: what its record covers
	recent    recentSet
	recalled  bool
	failures  int               // consecutive failures to open
	stored    model.Health      // last stored health
	storing   bool              // a write is in progress, or was a moment ago
	stores    chan healthStored // outcome of the write
	nextStore <-chan time.Time  // until the next write
	results   chan *result
	busy      sync.WaitGroup                      // tasks, and what is done beside the loop
	lost      atomic.Pointer[sluice.Subscription] // whose access was lost since it was opened: nothing is sent
	sending   atomic.Int32
	ahead     budget
	share     *fairsem.Share // of the process's permits for attempts
	verdicts  *verdicts
	exhausted atomic.Int32 // consecutive events on which the filter exceeded its cost limit
	looking   sync.Mutex
	watched   atomic.Pointer[expiryScan] // with the current settings

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

// change replaces the subscription's settings; the latest wins.
func (r *runner) change(sub *sluice.Subscription) {
	select {
	case <-r.changed:
	default:
	}
	r.changed <- sub
}

// run serves the subscription until ctx is done, which is no error, or it cannot go on. Attempts in
// flight finish and their results are stored before it returns.
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
	r.source.Close()          // the last look sees its leftovers
	if r.lost.Load() != nil { // lost access is the cause, also beside other failures; no event becomes a dead letter
		return errors.Join(err, errLost)
	}
	r.looking.Lock() // and what the look before it could not report
	defer r.looking.Unlock()
	r.scanExpired(work, lastLook)
	return err
}

// open reads the subscription's stored lanes and opens its source.
func (r *runner) open(ctx context.Context) error {
	sub := r.sub
	select {
	case sub = <-r.changed: // it may fix the failure to open
	default:
	}
	sub, match, err := r.compiled(ctx, sub)
	if err != nil {
		return err
	}
	r.configure(sub, match)
	err = r.watched.Load().before(ctx)
	if sluice.CodeOf(err) == sluice.QuotaExceeded { // deliveries need no storage
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
	r.results = make(chan *result, r.sub.Policy.MaxPending()) // a task has one, and each lane one task
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

// remembered reads what is stored about the subscription, and returns its parked lanes.
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
	if r.conclude != nil && sub.Policy.OnDead == sluice.DeadHolds { // operators would not look for it in a replay's lanes
		giving := *sub
		giving.Policy.OnDead = sluice.DeadContinues
		sub = &giving
	}
	r.adopt(sub, r.rate, r.match == nil)
	r.match = match
	r.watched.Store(&expiryScan{sub: sub, match: match, ports: r.ports, opts: Options{Observe: r.observe, Log: r.log}})
}

// serve is the loop. It ends when ctx is done or after a failure that the runner cannot fix.
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

// mostQuick is how many turns of the loop look at deliveries and results alone.
const mostQuick = 16

// hurry takes a result or a delivery that is there, without a look at anything else, and reports whether there
// was one: a look at everything costs as much as an attempt's decisions.
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

// ended returns why the source ended.
func (r *runner) ended() error {
	if m, ok := r.source.(Moving); ok && m.Moved() {
		return errMoved
	}
	return errSourceEnded
}

// lookAside scans for events that left the log, beside the loop, unless it does already.
func (r *runner) lookAside(work context.Context) {
	if r.looking.TryLock() {
		r.busy.Go(func() {
			defer r.looking.Unlock()
			r.scanExpired(work, holdEvery)
		})
	}
}

// replayed reports whether a replay with an exhausted source has no lane left.
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
		return errSourceEnded // its consumers have to be changed
	}
	return nil
}

// settle enters a result, and acknowledges the deliveries that it settled.
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

// drain waits for the tasks in progress, so that attempts are recorded. If only the store is
// pending, the limit is shorter: it may be gone for good.
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

// forget deletes records that attempts in flight stored after the subscription had ended.
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

// answer notes that an acknowledgement failed; the delivery comes again.
func (r *runner) answer(err error) {
	if err != nil {
		r.log.Debug("acknowledgement lost", slog.String("subscription", r.sub.ID), slog.Any("error", err))
	}
}
