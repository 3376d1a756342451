package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Pauses before the gate is asked again that could not decide.
const (
	shortestWonder = 100 * time.Millisecond
	longestWonder  = 5 * time.Second
	wonderTold     = time.Second // what comes to this is logged
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

// keepBack passes a parked lane's next event over that is withheld. If it is not known whether it
// is, the lane waits behind the others that are due.
func (j job) keepBack(ctx context.Context, t task, p *park, d model.Decision) error {
	if d != model.Withhold {
		j.drop(p)
		p.NextAt = time.Now()
		return nil
	}
	j.pass(p, p.ahead[0].Seq)
	return j.saveNowAndThen(ctx, t, p)
}

// saveNowAndThen stores how far a lane that is read back has come, unless it was stored a moment ago
// or its record is about to go.
func (j job) saveNowAndThen(ctx context.Context, t task, p *park) error {
	if p.FromSeq > p.upTo || !t.careful && time.Since(p.savedAt) < saveEvery {
		return nil
	}
	p.savedAt = time.Now()
	return j.save(ctx, &p.ParkedEntry)
}

// decide asks the gate about an event of which nothing is to be sent.
func (j job) decide(ev *sluice.Event) model.Decision {
	if j.r.lost.Load() {
		return model.Lost
	}
	return j.heard(j.r.exit.decide(j.sub, ev))
}

// heard keeps in mind that access was lost.
func (j job) heard(d model.Decision) model.Decision {
	if d == model.Lost {
		j.r.lost.Store(true)
	}
	return d
}

// heed enters that the gate kept an event back. What was paid for it is given back: nobody is to
// wait for what was not sent.
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

// refund gives back what was paid for a task that sent nothing.
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
