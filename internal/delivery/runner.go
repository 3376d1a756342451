package delivery

import (
	"context"
	"errors"
	"log/slog"
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

// runner serves one subscription while run runs. It moves deliveries from the source to the
// dispatcher, executes the dispatcher's decisions, and enters the results. Only the goroutine of run
// uses the dispatcher.
type runner struct {
	dispatcher

	id        string
	constants constants
	scope     scope
	ports     Deps
	observe   Observer
	log       *slog.Logger

	mailbox   mailbox
	intake    intake
	past      past
	evaluator evaluator
	executor  executor
	ahead     budget
	egress    egress // the way to the endpoint; ports has no sender
	lookout   lookout
	record    healthRecord
	board     gaugeBoard

	opened     uint64    // the last spell of the breaker that was announced
	failures   int       // consecutive failures to open
	unopenedAt time.Time // of the first of them
}

func newRunner(sub *sluice.Subscription, ports Deps, opts Options, ahead *atomic.Int64, share *fairsem.Share) *runner {
	return &runner{
		dispatcher: dispatcher{sub: sub, pacer: ports.Pace, places: share},
		id:         sub.ID, constants: constantsOf(sub), scope: scope{lanesOf: sub.ID},
		ports: ports, observe: opts.Observe, log: opts.Log,
		mailbox: newMailbox(), evaluator: evaluator{pool: ports.Filters, verdicts: newVerdicts()},
		executor: executor{share: share}, ahead: budget{shared: ahead}, lookout: lookout{every: opts.LookEvery},
		record: healthRecord{store: ports.Healths}, board: gaugeBoard{gauges: model.DeliveryGauges{Namespace: sub.Namespace, Subscription: sub.ID}},
	}
}

// run serves the subscription until ctx is done, which is not an error, or until it cannot
// continue. Before it returns, attempts in flight finish and their results are stored.
func (r *runner) run(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return &openError{err}
	}
	defer r.intake.source.Close()
	work, cancel := context.WithCancel(shutdown.Lasting(ctx))
	defer r.ahead.reset()
	defer r.executor.busy.Wait()
	defer cancel()
	err := r.serve(ctx, work)
	err = errors.Join(err, r.drain(work))
	if errors.Is(err, errLanesLost) {
		err = errors.Join(err, r.saveLanes(work))
	}
	r.past.left = r.lanes.unfinished()
	r.lanes.abandon()
	r.leave(work)
	r.intake.source.Close()          // before the last scan, which then covers the events that it did not hand out
	if r.egress.lost.Load() != nil { // lost access takes precedence over other failures; no event becomes a dead letter then
		return errors.Join(err, errLost)
	}
	r.lookout.last(work, r.intake.source)
	return err
}

// open reads the subscription's stored lanes and opens its source.
func (r *runner) open(ctx context.Context) error {
	sub, match, err := r.compiled(ctx, r.mailbox.latest(r.sub)) // new settings may fix a failure to open
	if err != nil {
		return err
	}
	r.configure(sub, match)
	err = r.lookout.scan.Load().before(ctx)
	if sluice.CodeOf(err) == sluice.QuotaExceeded { // the store is full, but deliveries need no space
		r.log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", r.id), slog.Any("error", err))
	} else if err != nil {
		return err
	}
	source, err := r.ports.Sources.Open(ctx, r.sub)
	if err != nil {
		return err
	}
	r.intake.open(source)
	if err := r.restore(ctx); err != nil {
		source.Close()
		return err
	}
	r.breaker = r.breaker.ResetAfterRestart()
	r.egress.open()
	r.record.open()
	r.executor.open(r.sub.Policy.MaxPending())
	return nil
}

func (r *runner) restore(ctx context.Context) error {
	parked, err := r.remembered(ctx)
	if err != nil {
		return err
	}
	r.lanes = newLaneTable(r.sub.Policy.MaxPending())
	r.lanes.batch, r.lanes.debounce = r.sub.Policy.Batch, r.scope.debounce(r.sub)
	if r.constants.ordering != sluice.OrderAll {
		r.lanes.patience = hogPatience
	}
	r.past.recent.size = 4 * r.sub.Policy.MaxPending()
	r.past.covered = make(map[string]reach, len(parked))
	defer r.past.coverSuperseded(r.scope.lanesOf, r.constants.ordering)
	for _, e := range parked {
		seen := r.intake.source.Seen(e.Path)
		if streams.IsEventLane(r.scope.lanesOf, e.Lane) {
			seen = e.FromSeq
		}
		r.past.covered[e.Lane] = reach{e.FromSeq, seen}
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
	if r.intake.clean() {
		r.past.recovered, r.past.left = nil, nil
		return nil, nil
	}
	if len(r.past.left) == 0 {
		if past, known := r.intake.past(); known {
			r.past.recovered = past
			return nil, nil
		}
	}
	if err := r.restoreHealth(ctx); err != nil {
		return nil, err
	}
	if parked, err = r.reclaim(ctx); err != nil {
		return nil, err
	}
	floor := r.intake.source.Floor()
	after := floor
	for _, e := range parked {
		after = min(after, max(e.FromSeq, 1)-1)
	}
	r.past.recovered, err = r.ports.Log.Recover(ctx, r.sub, after, floor)
	return parked, err
}

func (r *runner) configure(sub *sluice.Subscription, match *filter.Matcher) {
	sub = r.scope.settings(sub)
	r.adopt(sub, r.scope.rate, r.evaluator.match == nil)
	r.evaluator.match = match
	r.lookout.scan.Store(&expiryScan{sub: sub, match: match, ports: r.ports, opts: Options{Observe: r.observe, Log: r.log}})
}

// serve is the loop of the runner. It ends when ctx is done, when there is no work left, or after a
// failure that the runner cannot fix.
func (r *runner) serve(ctx, work context.Context) error {
	t := r.timers()
	defer t.stop()
	defer r.executor.share.Pass()
	exhausted := r.intake.source.Exhausted()
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
		case <-r.intake.source.Ended():
			return r.intake.ended()
		case <-exhausted:
			exhausted = nil
		case d := <-r.intake.source.Deliveries():
			r.arrive(work, d)
		case res := <-r.executor.results:
			if err := r.take(ctx, work, res); err != nil {
				return err
			}
		case <-r.evaluator.verdicts.news:
			r.applyVerdicts()
		case <-r.mailbox.unsaved:
			return errors.Join(errLanesLost, r.saveLanes(work))
		case now := <-t.beat.C:
			if r.beat(now) {
				return errResting
			}
		case <-t.due():
		case <-r.executor.share.Freed():
		case a := <-r.mailbox.acts:
			r.takeAct(work, a)
		case s := <-r.record.written():
			r.healthWritten(ctx, s)
		case <-r.record.next:
			r.record.goOn()
		case <-t.looks.C:
			r.lookout.aside(work, r.intake.source, &r.executor.busy)
		case sub := <-r.mailbox.changed:
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
	case res := <-r.executor.results:
		return true, r.take(ctx, work, res)
	default:
	}
	select {
	case d := <-r.intake.source.Deliveries():
		r.arrive(work, d)
		return true, nil
	default:
	}
	*quick = 0
	return false, nil
}

// replayed reports whether the runner is that of a replay and has no lane left.
func (r *runner) replayed() bool { return r.scope.isReplay() && r.lanes.empty() }

// reconfigure applies changed settings.
func (r *runner) reconfigure(sub *sluice.Subscription) error {
	pending := r.sub.Policy.MaxPending()
	match, err := r.ports.Filters.CompileNow(sub.Filter, r.ports.Labels)
	if err != nil {
		return err
	}
	r.configure(sub, match)
	r.lanes.batch, r.lanes.debounce = sub.Policy.Batch, r.scope.debounce(sub)
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
		r.past.recent.add(res.lane.park.FromSeq)
	}
	acks := r.enter(res, time.Now())
	if res.kind == resultSettled {
		for _, d := range acks {
			r.past.recent.add(d.Event.Seq)
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
			if r.egress.sending.Load() == 0 {
				shutdown.Left(work, "deliveries", r.lanes.busy)
				return errUnrecorded
			}
			stuck.Reset(recordLimit)
		case res := <-r.executor.results:
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
	if r.record.stored != (model.Health{}) {
		err = errors.Join(err, r.record.put(limit, r.sub, model.Health{}))
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
