package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
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

// saveNowAndThen stores a lane's read-back position, unless it was stored within saveEvery or the
// record is about to be deleted. A careful task stores it always.
func (j job) saveNowAndThen(ctx context.Context, t task, p *park) error {
	if p.FromSeq > p.upTo || !t.careful && time.Since(p.savedAt) < saveEvery {
		return nil
	}
	p.savedAt = time.Now()
	return j.save(ctx, &p.ParkedEntry)
}

// applyDecision handles a decision of the gate not to send an event. It refunds the rate that was
// charged for the attempt.
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
		if r.backOffGate(now) {
			r.log.WarnContext(ctx, "nothing is sent: access cannot be checked, or the module does not run here", slog.String("subscription", r.id))
		}
	}
	return nil
}
