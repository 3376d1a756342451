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
	shortestWonder = 100 * time.Millisecond
	longestWonder  = 5 * time.Second
	wonderTold     = time.Second // pauses from this length on are logged
)

// keptError says that the gate kept an event back.
type keptError struct{ decision model.Decision }

func (keptError) Error() string { return "withheld by the gate" }

// keptBack is the result for a live head that the gate kept back.
func keptBack(d model.Decision) result {
	res := result{kind: resultSpared, kept: true, decision: d}
	if d == model.Withhold {
		res.kind = resultSettled
	}
	return res
}

// keepBack skips a parked lane's next event that is withheld. If the gate could not decide, the
// lane waits behind the other due lanes.
func (j job) keepBack(ctx context.Context, t task, p *park, d model.Decision) error {
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
	return j.heard(j.r.exit.decide(j.sub, ev))
}

// heard remembers that access was lost.
func (j job) heard(d model.Decision) model.Decision {
	if d == model.Lost {
		j.r.lost.Store(true)
	}
	return d
}

// heed enters that the gate kept an event back. It refunds the charge: nothing has to wait for an
// event that was not sent.
func (r *runner) heed(ctx context.Context, d model.Decision) error {
	now := time.Now()
	r.refund(now)
	switch d {
	case model.Lost:
		return errLost
	case model.Withhold:
		r.wonder = 0
		r.observe.Withheld(r.sub)
	case model.Undecided, model.Pass:
		r.puzzled(ctx, now)
	}
	return nil
}

// puzzled enters that the gate could not decide: nothing is sent until it is asked again.
func (r *runner) puzzled(ctx context.Context, now time.Time) {
	if r.askAt.After(now) {
		return // it was asked about several at once
	}
	r.wonder = min(max(2*r.wonder, shortestWonder), longestWonder)
	r.askAt = now.Add(r.wonder)
	if r.wonder >= wonderTold && r.wonder < 2*wonderTold {
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
