package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type resultKind int

const (
	resultSettled   resultKind = iota // the head of a live lane is settled
	resultBlocked                     // the head was not sent, or its failure does not count
	resultParked                      // the lane's record was stored
	resultResumed                     // a parked lane moved on, or its head failed again
	resultDoubtful                    // the filter's verdict on a parked lane's next event is missing
	resultUnparked                    // the record was deleted
	resultReleased                    // a held lane was released
	resultDiscarded                   // a held lane's head was discarded
)

// result is the outcome of a task.
type result struct {
	kind    resultKind
	lane    *lane
	park    park
	more    int             // resultSettled: number of deliveries that were sent with the head
	attempt *sluice.Attempt // the last one; nil: none was made
	err     error           // the runner cannot continue

	blocked  bool           // the gate kept the event back
	decision model.Decision // the reason, if blocked
}

// job executes one task with the settings from when it started.
type job struct {
	r     *runner
	sub   *sluice.Subscription
	match *filter.Matcher
	spare time.Duration // task.spare
}

// do executes one task. It sends one result to j.r.executor.results, possibly later.
func (j job) do(ctx context.Context, t task) {
	res := &result{}
	switch t.kind {
	case taskSend:
		j.send(ctx, t)
		return
	case taskSpill:
		*res = j.park(ctx, t, sluice.Parked{NextAt: time.Now().Add(j.r.scope.debounce(j.sub).Quiet.Std())})
	case taskResume:
		*res = j.resume(ctx, t)
	case taskUnpark:
		err := j.persist(ctx, func() error { return j.r.ports.Lanes.Unpark(ctx, t.lane.key, t.park.Revision) })
		*res = result{kind: resultUnparked, err: err}
	case taskRelease:
		*res = j.release(ctx, t)
	case taskDiscard:
		*res = j.discard(ctx, t)
	}
	res.lane = t.lane
	j.r.executor.results <- res
}

// send makes the first attempt of a live lane's head. A success costs one write. send does not wait
// for it; the result is sent when it is stored.
func (j job) send(ctx context.Context, t task) {
	ev := &t.head.Event
	cause, err := t.head.Err, error(nil)
	if cause == nil {
		cause, err = j.looped(ctx, ev)
	}
	if cause != nil || err != nil {
		res := result{err: err}
		if err == nil {
			res = j.unsendable(ctx, t, cause)
		}
		res.lane = t.lane
		j.r.executor.results <- &res
		return
	}
	before := j.r.past.progressOf(ev)
	more := j.together(ctx, t.more)
	a, d := j.attempt(ctx, ev, before.Attempts+1, before.FirstFailed, more...)
	if d != model.Pass {
		res := blockedResult(d)
		res.lane = t.lane
		j.r.executor.results <- &res
		return
	}
	if a.Probe || a.Verdict.Settled {
		kind := resultSettled
		if a.Probe {
			kind = resultBlocked
		}
		results := j.r.executor.results // Record may call back after this run of the runner has ended
		j.r.ports.Log.Record(&a, j.sub.Namespace, func(err error) {
			results <- &result{kind: kind, lane: t.lane, more: max(0, len(a.Batch)-1), attempt: &a, err: err}
		})
		return
	}
	res := j.unsettled(ctx, t, &a, before, sentOf(&a, more)...)
	res.lane, res.attempt = t.lane, &a
	j.r.executor.results <- &res
}

// unsendable handles a live head that cannot be sent: it becomes a dead letter, or its lane is
// held.
func (j job) unsendable(ctx context.Context, t task, why error) result {
	reason, cause := reasonOf(why), why.Error()
	if d := j.r.egress.decide(j.sub, &t.head.Event); d != model.Pass { // asked first, because a dead letter reveals its event
		return blockedResult(d)
	}
	if j.r.evaluator.exhausts(why) {
		res := blockedResult(model.Undecided)
		res.err = j.suspend(ctx, why)
		return res
	}
	if retry.Holds(j.sub.Policy, reason) {
		return j.park(ctx, t, sluice.Parked{LastError: cause, Held: reason, HeldAt: time.Now()})
	}
	err := j.bury(ctx, &t.head.Event, sluice.Attempt{Error: cause}, reason)
	return result{kind: resultSettled, err: err}
}

// unsettled handles a live head that was not delivered: its lane is parked, or it becomes a dead
// letter.
func (j job) unsettled(ctx context.Context, t task, a *sluice.Attempt, before model.Progress, more ...*sluice.Event) result {
	if err := j.conclude(ctx, &t.head.Event, a, more...); err != nil {
		return result{err: err}
	}
	if a.Verdict.Final() {
		return result{kind: resultSettled, more: len(more)}
	}
	p := sluice.Parked{FirstFailedAt: before.FirstFailed}
	failed(&p, a)
	return j.park(ctx, t, p)
}

// park stores a live lane's record, starting at its head.
func (j job) park(ctx context.Context, t task, p sluice.Parked) result {
	ev := &t.head.Event
	p.Lane, p.FromSeq, p.EventID = t.lane.key, ev.Seq, ev.ID
	if j.sub.Policy.Ordering != sluice.OrderAll {
		p.Path = ev.Path
	}
	e := model.ParkedEntry{Parked: p}
	err := j.saveHead(ctx, &e, ev)
	return result{kind: resultParked, park: park{ParkedEntry: e}, err: err}
}

// attempt sends an event, with more events of its batch, if the gate permits it, and decides the
// verdict. Unless the decision is Pass, no attempt was made.
func (j job) attempt(ctx context.Context, ev *sluice.Event, number int, firstFailed time.Time, more ...*sluice.Event) (sluice.Attempt, model.Decision) {
	a, d := j.r.egress.send(ctx, j.sub, ev, number, more...)
	if d != model.Pass {
		return a, d
	}
	j.r.evaluator.affordable()
	now := time.Now()
	if firstFailed.IsZero() {
		firstFailed = a.StartedAt
	}
	a.FirstFailedAt, a.Class = firstFailed, a.Failure()
	if a.Probe = j.spare > 0 && classify(&a) == breaker.Trouble; a.Probe {
		a.Verdict = sluice.Verdict{Again: now.Add(j.spare)}
	} else {
		a.Verdict = retry.Decide(j.sub.Policy, a, firstFailed, now, rand.Float64()) //nolint:gosec // jitter, not a secret
	}
	j.r.observe.Attempted(j.sub, &a)
	level := slog.LevelInfo
	if a.Outcome == sluice.Delivered {
		level = slog.LevelDebug
	}
	if j.r.log.Enabled(ctx, level) {
		j.r.log.LogAttrs(ctx, level, "attempt", attemptAttrs(&a)...)
	}
	return a, model.Pass
}

// attemptAttrs returns the log attributes of an attempt, without unset ones.
func attemptAttrs(a *sluice.Attempt) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("subscription", a.Subscription), slog.String("event", a.EventID), slog.Uint64("seq", a.Seq),
		slog.Int("number", a.Number), slog.String("outcome", string(a.Outcome)), slog.Duration("duration", a.Duration.Std()),
	}
	if a.Probe {
		attrs = append(attrs, slog.Bool("probe", true))
	}
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.Error != "" {
		attrs = append(attrs, slog.String("error", a.Error))
	}
	if again := a.Verdict.Again; !again.IsZero() {
		attrs = append(attrs, slog.Time("again", again))
	}
	if dead := a.Verdict.Dead; dead != "" {
		attrs = append(attrs, slog.String("dead", string(dead)))
	}
	if held := a.Verdict.Held; held != "" {
		attrs = append(attrs, slog.String("held", string(held)))
	}
	return attrs
}

// conclude stores the permanent consequence of an attempt, and then the attempt. Dead letters come
// first, because once a final attempt is recorded, no process handles its events again. A crash
// between the two repeats the attempt.
func (j job) conclude(ctx context.Context, ev *sluice.Event, a *sluice.Attempt, more ...*sluice.Event) error {
	if a.Verdict.Dead != "" || a.Verdict.Cancel {
		if err := j.giveUp(ctx, a, append([]*sluice.Event{ev}, more...)); err != nil {
			return err
		}
	}
	return j.record(ctx, a)
}

// giveUp cancels the subscription if its endpoint is gone, or writes the dead letters of an attempt.
func (j job) giveUp(ctx context.Context, a *sluice.Attempt, events []*sluice.Event) error {
	if a.Verdict.Cancel {
		if err := j.cancel(ctx, a, events); err != nil {
			return err
		}
	}
	if a.Verdict.Dead == "" {
		return nil
	}
	return j.buryAll(ctx, a, events, a.Verdict.Dead)
}

// cancel writes the dead letters of an attempt, and cancels the subscription, because its endpoint
// is gone. If the subscription has another endpoint by now, the attempt failed like others.
func (j job) cancel(ctx context.Context, a *sluice.Attempt, events []*sluice.Event) error {
	cancelled, buried := false, false
	letters := func() (err error) {
		if !buried {
			err = j.buryAll(ctx, a, events, sluice.EndpointGone)
			buried = err == nil
		}
		return err
	}
	err := j.persist(ctx, func() (err error) {
		cancelled, err = j.r.ports.Registry.Cancel(ctx, j.sub, letters)
		return err
	})
	if err == nil && !cancelled {
		policy := j.sub.Policy
		policy.OnGone = sluice.GoneRetries
		a.Verdict = retry.Decide(policy, *a, a.FirstFailedAt, time.Now(), rand.Float64()) //nolint:gosec // jitter, not a secret
	}
	return err
}

func (j job) buryAll(ctx context.Context, a *sluice.Attempt, events []*sluice.Event, reason sluice.Reason) error {
	for _, ev := range events {
		if err := j.bury(ctx, ev, *a, reason); err != nil {
			return err
		}
	}
	return nil
}

func (j job) bury(ctx context.Context, ev *sluice.Event, a sluice.Attempt, reason sluice.Reason) error {
	d := deadLetterOf(j.sub, ev, a, reason)
	d.Event = ev
	return j.buryLetter(ctx, d)
}

func deadLetterOf(sub *sluice.Subscription, ev *sluice.Event, a sluice.Attempt, reason sluice.Reason) sluice.DeadLetter {
	return sluice.DeadLetter{
		Subscription: sub.ID, Namespace: sub.Namespace, EventID: ev.ID, Seq: ev.Seq, Path: ev.Path,
		Attempts: a.Number, Reason: reason, LastError: a.Error, LastStatus: a.Status,
		FirstFailedAt: a.FirstFailedAt, At: time.Now().UTC(),
	}
}

func (j job) buryLetter(ctx context.Context, d sluice.DeadLetter) error {
	j.r.observe.Buried(j.sub, d.Reason)
	j.r.log.LogAttrs(ctx, slog.LevelWarn, "dead letter",
		slog.String("subscription", d.Subscription), slog.String("event", d.EventID), slog.Uint64("seq", d.Seq),
		slog.String("reason", string(d.Reason)), slog.Int("attempts", d.Attempts), slog.String("error", d.LastError))
	return j.persist(ctx, func() error { return j.r.ports.Log.Bury(ctx, d) })
}

// record stores an attempt and waits until it is stored.
func (j job) record(ctx context.Context, a *sluice.Attempt) error {
	done := make(chan error, 1)
	j.r.ports.Log.Record(a, j.sub.Namespace, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j job) save(ctx context.Context, e *model.ParkedEntry) error {
	return j.persist(ctx, func() error {
		rev, err := j.r.ports.Lanes.Park(ctx, j.sub, e.Parked, e.Revision)
		if err == nil {
			e.Revision = rev
		}
		return err
	})
}

// persist repeats a write until it succeeds or ctx ends, because the store may be unreachable for a
// while, or full. It does not repeat a lost compare-and-set, because then the lane has another
// owner.
func (j job) persist(ctx context.Context, write func() error) error {
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	err := backoff.Retry(func() error {
		err := write()
		if code := sluice.CodeOf(err); err != nil && code != sluice.Internal && code != sluice.Unavailable && code != sluice.QuotaExceeded {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx))
	if err != nil {
		return fmt.Errorf("subscription %s: %w", j.sub.ID, err)
	}
	return nil
}

func reasonOf(err error) sluice.Reason {
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes concern unreadable records
	case sluice.Unprocessable:
		return sluice.FilterError
	case sluice.EventLoopDetected:
		return sluice.Loop
	}
	return sluice.Malformed
}
