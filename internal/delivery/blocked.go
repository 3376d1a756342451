package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Pauses before a gate that could not decide is asked again.
const (
	minGateBackoff    = 100 * time.Millisecond
	maxGateBackoff    = 5 * time.Second
	loggedGateBackoff = time.Second // pauses from this length on are logged
)

// blockedError says that the gate kept an event back.
type blockedError struct{ decision model.Decision }

func (blockedError) Error() string { return "withheld by the gate" }

// blockedResult is the result for a live head that the gate kept back.
func blockedResult(d model.Decision) result {
	res := result{kind: resultBlocked, blocked: true, decision: d}
	if d == model.Withhold {
		res.kind = resultSettled
	}
	return res
}

// blockHead skips a parked lane's next event that is withheld. If the gate could not decide, the
// lane waits behind the other due lanes.
func (j job) blockHead(ctx context.Context, t task, p *park, d model.Decision) error {
	if d != model.Withhold {
		j.drop(p)
		p.NextAt = time.Now()
		return nil
	}
	j.pass(p, p.ahead[0].Seq)
	return j.saveNowAndThen(ctx, t, p)
}

// saveNowAndThen stores a lane's read-back position, unless it was stored a moment ago or its
// record is about to be deleted.
func (j job) saveNowAndThen(ctx context.Context, t task, p *park) error {
	if p.FromSeq > p.upTo || !t.careful && time.Since(p.savedAt) < saveEvery {
		return nil
	}
	p.savedAt = time.Now()
	return j.save(ctx, &p.ParkedEntry)
}

// decide asks the gate about an event without sending it.
func (j job) decide(ev *sluice.Event) model.Decision {
	if j.r.lost.Load() {
		return model.Lost
	}
	return j.noteDecision(j.r.outbound.decide(j.sub, ev))
}

// noteDecision remembers that access was lost.
func (j job) noteDecision(d model.Decision) model.Decision {
	if d == model.Lost {
		j.r.lost.Store(true)
	}
	return d
}

// applyDecision enters that the gate kept an event back. It refunds the charge: nothing has to wait for an
// event that was not sent.
func (r *runner) applyDecision(ctx context.Context, d model.Decision) error {
	now := time.Now()
	r.refund(now)
	switch d {
	case model.Lost:
		return errLost
	case model.Withhold:
		r.gateBackoff = 0
		r.observe.Withheld(r.sub)
	case model.Undecided, model.Pass:
		r.backOffGate(ctx, now)
	}
	return nil
}

// backOffGate enters that the gate could not decide: nothing is sent until it is asked again.
func (r *runner) backOffGate(ctx context.Context, now time.Time) {
	if r.askAt.After(now) {
		return // it was asked about several at once
	}
	r.gateBackoff = min(max(2*r.gateBackoff, minGateBackoff), maxGateBackoff)
	r.askAt = now.Add(r.gateBackoff)
	if r.gateBackoff >= loggedGateBackoff && r.gateBackoff < 2*loggedGateBackoff {
		r.log.WarnContext(ctx, "nothing is sent: access cannot be checked", slog.String("subscription", r.id))
	}
}

// refund returns the charge of a task that sent nothing.
func (r *runner) refund(now time.Time) {
	if r.paced() {
		r.unpace(now)
	}
	if len(r.limits) == 0 && !r.paced() {
		return
	}
	r.throttled = time.Time{}
	for _, limit := range r.limits {
		limit.ReserveN(now, -1)
		if missing := -limit.TokensAt(now); missing > 0 {
			r.throttled = later(r.throttled, now.Add(time.Duration(missing/float64(limit.Limit())*float64(time.Second))))
		}
	}
}
