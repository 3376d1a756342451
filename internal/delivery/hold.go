package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	actLimit = time.Second            // how long act waits for a runner: one that takes longer is opening or ending
	actAgain = 250 * time.Millisecond // pause before the next try if no runner serves the subscription
)

// failed records a failed attempt at a lane's head: the time of the next attempt, or that the lane
// is held until an operator decides.
func failed(p *sluice.Parked, a *sluice.Attempt) {
	p.Attempts, p.NextAt, p.LastError = a.Number, a.Verdict.Again, a.Error
	if p.BatchTo = 0; len(a.Batch) > 0 {
		p.BatchTo = a.LastSeq()
	}
	if p.FirstFailedAt.IsZero() {
		p.FirstFailedAt = a.StartedAt
	}
	if a.Verdict.Held != "" {
		p.Held, p.HeldAt = a.Verdict.Held, time.Now()
	}
}

// saveHead stores a lane's record. If the record says that the lane is held, it then announces
// that.
func (j job) saveHead(ctx context.Context, e *model.ParkedEntry, ev *sluice.Event) error {
	if e.Held == "" {
		return j.save(ctx, e)
	}
	_, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (sluice.DeadLetter, error) {
		err := j.save(ctx, e)
		d := heldLetter(j.sub, &e.Parked, ev)
		d.At = e.HeldAt.UTC()
		return d, err
	}, j.tellHeld)
	return err
}

func (j job) tellHeld(ctx context.Context, d sluice.DeadLetter) {
	j.r.log.LogAttrs(ctx, slog.LevelWarn, "lane held",
		slog.String("subscription", d.Subscription), slog.String("event", d.EventID), slog.Uint64("seq", d.Seq),
		slog.String("reason", string(d.Reason)), slog.Int("attempts", d.Attempts), slog.String("error", d.LastError))
	j.r.ports.Announce.Held(j.sub, &d)
}

// heldLetter returns the dead letter of a held lane's head, which is written only if the head is
// discarded.
func heldLetter(sub *sluice.Subscription, p *sluice.Parked, ev *sluice.Event) sluice.DeadLetter {
	return deadLetterOf(sub, ev, sluice.Attempt{Number: p.Attempts, Error: p.LastError, FirstFailedAt: p.FirstFailedAt}, p.Held)
}

// holdUnsent holds a parked lane whose head cannot be sent, without an attempt.
func (j job) holdUnsent(ctx context.Context, p *park, ev *sluice.Event, cause error) error {
	j.drop(p)
	p.moveTo(ev.Seq)
	p.EventID, p.LastError, p.Held, p.HeldAt = ev.ID, cause.Error(), sluice.FilterError, time.Now()
	return j.saveHead(ctx, &p.ParkedEntry, ev)
}

// release makes a held lane try its head again, with a fresh retry schedule.
func (j job) release(ctx context.Context, t task) result {
	p, cause := t.park, t.park.LastError
	id := p.EventID
	p.moveTo(p.FromSeq)
	p.EventID, p.LastError, p.NextAt, p.anew = id, cause, time.Now(), p.FromSeq
	err := j.save(ctx, &p.ParkedEntry)
	return result{kind: resultReleased, park: p, err: err}
}

// discard makes the head of a held lane a dead letter, and moves the lane to its next event. After
// a crash in between, writing the letter again replaces it, so there is only one.
func (j job) discard(ctx context.Context, t task) result {
	p := t.park
	err := j.discardHead(ctx, &p)
	return result{kind: resultDiscarded, park: p, err: err}
}

func (j job) discardHead(ctx context.Context, p *park) error {
	var found []model.ReadEvent
	err := j.persist(ctx, func() (err error) {
		found, _, err = j.r.ports.Events.ReadLane(ctx, j.sub, p.Path, p.FromSeq, 1)
		return err
	})
	if err != nil {
		return err
	}
	d := heldLetter(j.sub, &p.Parked, &sluice.Event{ID: p.EventID, Seq: p.FromSeq, Path: p.Path})
	if len(found) > 0 && found[0].Seq == p.FromSeq { // otherwise the event has left the log
		d.Event, d.Path = &found[0].Event, found[0].Path
	}
	if err := j.buryLetter(ctx, d); err != nil {
		return err
	}
	p.moveTo(p.FromSeq + 1)
	return j.save(ctx, &p.ParkedEntry)
}

// act applies an operator's decision to the head of a parked lane of the live deliveries. It waits
// until a runner serves them, and starts one if necessary. A runner without work ends soon, so act
// asks a runner as soon as it has one, and again at once. It returns actedLater only if ctx ends.
func (e *Engine) act(ctx context.Context, rep *sluice.Replay, kind sluice.ReplayKind) acted {
	serves := make(chan *runner, 1)
	unserved := supervise.Pause{First: actAgain, Most: actAgain}
	for ctx.Err() == nil {
		e.tell(ctx, change{id: rep.Subscription, wake: func(live *runner) { serves <- live }})
		select {
		case live := <-serves:
			if live == nil {
				unserved.Wait(ctx)
			} else if how := live.mailbox.act(ctx, kind, rep.From); how != actedLater {
				return how
			}
		case <-ctx.Done():
		}
	}
	return actedLater
}

// retryNow makes the parked lane due whose head is the single event of a replay, and reports
// whether there is such a lane.
func (e *Engine) retryNow(ctx context.Context, rep *sluice.Replay) bool {
	return rep.Kind == sluice.ReplayRange && rep.From == rep.To && e.act(ctx, rep, sluice.ReplayRetry) == actedDone
}

// perform executes a replay that is an operator's act, and ends it.
func (e *Engine) perform(ctx context.Context, r *replaying) {
	if how := e.act(ctx, &r.replay, r.replay.Kind); how != actedLater {
		e.conclude(ctx, r.replay.Subscription, func(ctx context.Context) error { return r.finish(ctx, sluice.ReplayDone, r.performed(how)) })
	}
}

// performed returns the outcome of an act as text, and counts a discarded event.
func (r *replaying) performed(how acted) string {
	switch {
	case r.replay.Kind == sluice.ReplayProbe && how == actedNothing:
		return "the breaker was not open"
	case r.replay.Kind == sluice.ReplayProbe:
		return "the next probe was brought forward"
	case r.replay.Kind == sluice.ReplayProved:
		return "the request counted as a successful probe"
	case r.replay.Kind == sluice.ReplayLanes:
		return "all parked lanes were released"
	case how == actedNothing:
		return "it no longer holds its lane"
	case r.replay.Kind == sluice.ReplayDiscard:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dead = 1
		return "it became a dead letter, and its lane continues"
	}
	return "its lane was released: it is retried starting at attempt 1"
}
