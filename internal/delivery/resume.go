package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// saveEvery is the interval at which the record of a lane that is read back is stored while all
// goes well. After a crash, the attempt log has the progress since the last write.
const saveEvery = time.Second

// readBack is how many events of a lane are read at once.
const readBack = 32

// resume sends the next event of a parked lane.
func (j job) resume(ctx context.Context, t task) result {
	p := t.park
	res := result{kind: resultResumed}
	var ev *sluice.Event
	err := j.skipToLatest(ctx, &p)
	if err == nil {
		ev, err = j.nextOf(ctx, &p)
	}
	if err == nil && ev != nil {
		res.attempt, err = j.resend(ctx, t, &p, ev)
	}
	if kept, ok := errors.AsType[blockedError](err); ok {
		res.blocked, res.decision = true, kept.decision
		err = j.blockHead(ctx, t, &p, kept.decision)
	}
	if errors.Is(err, errDoubtful) {
		j.keepHead(&p)
		res.kind, err = resultDoubtful, nil
	}
	res.park, res.err = p, err
	return res
}

// nextOf returns the next event to send. It returns nil if the lane is read to its end, or if it
// skipped an event. Events that have left the log become dead letters.
func (j job) nextOf(ctx context.Context, p *park) (*sluice.Event, error) {
	if len(p.ahead) == 0 {
		if err := j.readAhead(ctx, p); err != nil {
			return nil, err
		}
	}
	end := len(p.ahead) == 0 || p.ahead[0].Seq > p.upTo
	last := p.upTo
	if !end {
		last = p.ahead[0].Seq - 1
	}
	if err := j.skipTo(ctx, p, last); err != nil || end {
		j.drop(p)
		return nil, err
	}
	read := &p.ahead[0]
	ev := &read.Event
	ok, err := j.wanted(ctx, p, read)
	if err == nil && !ok && p.Held == "" {
		j.pass(p, ev.Seq)
	}
	if !ok {
		ev = nil
	}
	return ev, err
}

// readAhead reads the next events of the lane, and makes a dead letter of those that have left the
// log.
func (j job) readAhead(ctx context.Context, p *park) error {
	var first uint64
	limit, most := 1, j.sub.Policy.Batch.Max // only one after a failure, because it may fail again
	if (p.Attempts == 0 || most > 1) && p.verdict == nil && j.r.ahead.take() {
		limit = max(readBack, most)
		defer func() { p.charged = j.r.ahead.settle(p.ahead) }()
	}
	err := j.persist(ctx, func() (err error) {
		p.ahead, first, err = j.r.ports.Events.ReadLane(ctx, j.sub, p.Path, p.FromSeq, limit)
		return err
	})
	if err != nil || first <= p.FromSeq || p.FromSeq > p.upTo {
		return err
	}
	return j.expire(ctx, p, min(first-1, p.upTo))
}

// skipTo moves the record past last. If the head was known but is not in the log any more, it
// becomes a dead letter.
func (j job) skipTo(ctx context.Context, p *park, last uint64) error {
	if last < p.FromSeq {
		return nil
	}
	if p.EventID != "" {
		return j.expire(ctx, p, last)
	}
	p.moveTo(last + 1)
	return nil
}

// expire makes a dead letter of the lane's events from its head to last, which left the log unsent.
func (j job) expire(ctx context.Context, p *park, last uint64) error {
	ev := sluice.Event{ID: p.EventID, Seq: p.FromSeq, Path: p.Path}
	d := deadLetterOf(j.sub, &ev, sluice.Attempt{Number: p.Attempts, Error: p.LastError, FirstFailedAt: p.FirstFailedAt}, sluice.Expired)
	d.LastSeq = last
	if err := j.buryLetter(ctx, d); err != nil {
		return err
	}
	p.moveTo(last + 1)
	return nil
}

// wanted reports whether an event that was read back has to be sent. If it cannot be decoded, is
// unknown to a strict catalogue, or closes a loop, it becomes a dead letter. If the filter fails on it, it becomes a dead letter, or its lane is held.
func (j job) wanted(ctx context.Context, p *park, read *model.ReadEvent) (bool, error) {
	ev := &read.Event
	if j.r.past.progressOf(ev).Settled || !j.r.scope.takes(j.sub, ev) {
		return false, nil
	}
	if read.Err != nil {
		return false, j.buryHead(ctx, p, ev, read.Err, sluice.Malformed)
	}
	ok, err := j.filtered(p, ev)
	if errors.Is(err, errDoubtful) {
		return false, err
	}
	if err != nil {
		return false, j.unfiltered(ctx, p, ev, err)
	}
	if !ok {
		j.r.unwanted(j.sub, ev)
		return false, nil
	}
	if err := j.r.ports.allowed(ev); err != nil {
		return false, j.buryHead(ctx, p, ev, err, sluice.Malformed)
	}
	cause, err := j.looped(ctx, ev)
	if cause != nil {
		return false, j.buryHead(ctx, p, ev, cause, sluice.Loop)
	}
	return err == nil, err
}

// buryHead makes a dead letter of a parked lane's next event, which cannot be sent. It asks the gate
// first, because a dead letter reveals its event (S0-63).
func (j job) buryHead(ctx context.Context, p *park, ev *sluice.Event, why error, reason sluice.Reason) error {
	if d := j.r.egress.decide(j.sub, ev); d != model.Pass {
		return blockedError{d}
	}
	return j.bury(ctx, ev, sluice.Attempt{Number: p.Attempts, Error: why.Error(), FirstFailedAt: p.FirstFailedAt}, reason)
}

// unfiltered handles a parked lane's next event if the filter fails on it: the event becomes a dead
// letter, or the lane is held.
func (j job) unfiltered(ctx context.Context, p *park, ev *sluice.Event, why error) error {
	if d := j.r.egress.decide(j.sub, ev); d != model.Pass {
		return blockedError{d}
	}
	if j.r.evaluator.exhausts(why) {
		if err := j.suspend(ctx, why); err != nil {
			return err
		}
		return blockedError{model.Undecided}
	}
	if retry.Holds(j.sub.Policy, sluice.FilterError) {
		return j.holdUnsent(ctx, p, ev, why)
	}
	return j.bury(ctx, ev, sluice.Attempt{Error: why.Error()}, sluice.FilterError)
}

// resend makes one attempt of a parked lane's head and stores the lane's state.
func (j job) resend(ctx context.Context, t task, p *park, ev *sluice.Event) (*sluice.Attempt, error) {
	number := p.following(ev.Seq, j.r.past.progressOf(ev))
	more := j.readTogether(ctx, p)
	a, d := j.attempt(ctx, ev, number, p.FirstFailedAt, more...)
	if d != model.Pass {
		return nil, blockedError{d}
	}
	a.SupersedesFrom = p.skippedFrom
	if err := j.conclude(ctx, ev, &a, sentOf(&a, more)...); err != nil {
		return nil, err
	}
	if a.Probe {
		j.drop(p)
		p.NextAt, p.EventID = time.Now(), ev.ID // due now, but behind the lanes that were due before
		return &a, nil
	}
	if !a.Verdict.Final() {
		j.drop(p) // free the memory: the next attempt may be far off
		p.EventID = ev.ID
		failed(&p.Parked, &a)
		return &a, j.saveHead(ctx, &p.ParkedEntry, ev)
	}
	p.skippedFrom = 0
	j.pass(p, a.LastSeq())
	return &a, j.saveNowAndThen(ctx, t, p)
}

// pass moves the record past the first event that was read, or past a batch.
func (j job) pass(p *park, seq uint64) {
	for len(p.ahead) > 0 && p.ahead[0].Seq <= seq {
		p.ahead[0] = model.ReadEvent{}
		p.ahead = p.ahead[1:]
	}
	if len(p.ahead) == 0 {
		j.drop(p)
	}
	p.moveTo(seq + 1)
}

// keepHead drops the events that were read ahead, except the first one, which waits for the filter.
func (j job) keepHead(p *park) {
	head := p.ahead[0]
	j.drop(p)
	p.ahead = []model.ReadEvent{head}
}

// drop drops the events that were read ahead, and gives back their budget.
func (j job) drop(p *park) {
	j.r.ahead.give(p.charged)
	p.ahead, p.charged = nil, 0
}
