package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	grace      = 2 * time.Second // how long notices in flight may continue when the runner ends
	storeLimit = 10 * time.Second
	postpone   = time.Second // pause before retrying a notice that could not be made
	overlap    = 2           // notices of one consumer in flight (register C27)
)

// plan schedules the next action of a record; r.mu is held.
func (r *runner) plan(en *entry) {
	c := &en.Consumer
	switch {
	case c.Of != r.of, c.State == sluice.WakeWaking && (en.underWay() || en.flying >= overlap):
		r.clock.drop(en) // nothing to do until the record changes
	case c.State == sluice.WakeWaking, c.State == sluice.WakeLive:
		en.at = r.when(c)
		r.clock.set(en)
		ring(r.alarm)
	default:
		r.clock.drop(en)
		if en.other || c.State == sluice.WakeIdle && en.seen > c.acked(c.Path) || c.State == sluice.WakeRemoved && en.seen > c.Since {
			r.look(en)
		}
	}
}

// when returns when to check a consumer, by this process's monotonic clock. It limits a time in the
// record that is implausibly far ahead.
func (r *runner) when(c *Consumer) time.Time {
	now, most := r.engine.opts.Now(), mostAhead
	if c.State == sluice.WakeWaking {
		most += 2 * retry.Cap(r.sub.Load().Policy.Retry)
	}
	return now.Add(min(c.Due.Sub(now), most))
}

// underWay reports whether the attempt that is due was already started.
func (en *entry) underWay() bool {
	return en.sent == en.Consumer.WakeID && en.number == en.Consumer.Failures+1
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a value is pending
	}
}

// send sends due notices and schedules silent consumers for processing, until ctx is done.
func (r *runner) send(ctx context.Context) {
	defer r.share.Pass()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(r.round()) //nolint:contextcheck // the runner has its own context
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.alarm:
		case <-r.share.Freed():
		}
	}
}

// round starts the due work for which there is room, and returns the time until the next round.
func (r *runner) round() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.engine.opts.Now()
	for len(r.clock) > 0 && !r.clock[0].at.After(now) {
		en := r.clock[0]
		r.clock.drop(en)
		switch {
		case en.Consumer.State != sluice.WakeWaking:
			r.look(en)
		case !en.queued:
			en.queued = true
			r.due = append(r.due, en)
		}
	}
	wait := r.launchDue(now)
	if len(r.due) == 0 || wait > 0 {
		r.share.Pass()
	}
	rest := time.Hour
	if wait > 0 {
		rest = wait
	}
	if len(r.clock) > 0 {
		rest = min(rest, max(r.clock[0].at.Sub(now), 0))
	}
	return rest
}

// launchDue starts due notices, in order, as long as there is room. It returns how long the next
// one has to wait for the endpoint's rate; 0: it does not wait for the rate. r.mu is held.
func (r *runner) launchDue(now time.Time) (wait time.Duration) {
	sub := r.sub.Load()
	for r.flying < sub.Policy.Window {
		en := r.nextDue()
		if en == nil {
			return 0
		}
		if wait = r.engine.pace(sub, now); wait > 0 {
			return wait
		}
		if !r.share.Take() {
			r.engine.unpace(sub, now)
			return 0
		}
		r.due[0] = nil
		r.due = r.due[1:]
		en.queued = false
		r.launch(en)
	}
	return 0
}

// nextDue returns the first consumer with a notice to send, nil if there is none. It removes the
// consumers before it from the queue, because they need no notice any more. r.mu is held.
func (r *runner) nextDue() *entry {
	for len(r.due) > 0 {
		en := r.due[0]
		if en.Consumer.State == sluice.WakeWaking && !en.underWay() && en.flying < overlap {
			return en
		}
		r.due[0] = nil
		r.due = r.due[1:]
		en.queued = false
	}
	return nil
}

// pace counts a request to an endpoint that agreed to a rate and returns 0, or returns how long to
// wait. unpace undoes pace.
func (e *Engine) pace(sub *sluice.Subscription, now time.Time) time.Duration {
	if !e.paces(sub) {
		return 0
	}
	return e.ports.Pace.Take(sub, now)
}

func (e *Engine) unpace(sub *sluice.Subscription, now time.Time) {
	if e.paces(sub) {
		e.ports.Pace.Return(sub, now)
	}
}

func (e *Engine) paces(sub *sluice.Subscription) bool {
	return e.ports.Pace != nil && sub.Agreed != nil && sub.Agreed.RatePerMinute > 0
}

// launch sends the notice of a consumer; r.mu is held.
func (r *runner) launch(en *entry) {
	en.sent, en.number = en.Consumer.WakeID, en.Consumer.Failures+1
	r.flying++
	en.flying++
	known, foreseen := Entry{en.Consumer.clone(), en.Revision}, en.ahead
	en.ahead = nil
	r.work.Go(func() {
		again := r.attempt(known, foreseen)
		r.share.Give()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flying--
		en.flying--
		if again && en.sent == known.Consumer.WakeID && en.number == known.Consumer.Failures+1 {
			en.sent = "" // no attempt was made
			r.postpone(en)
		} else {
			r.plan(en)
		}
		ring(r.alarm)
	})
}

// postpone schedules a notice that could not be made for later; r.mu is held.
func (r *runner) postpone(en *entry) {
	if en.Consumer.State == sluice.WakeWaking && r.ctx.Err() == nil {
		en.at = r.engine.opts.Now().Add(postpone)
		r.clock.set(en)
	}
}

// attempt makes one attempt to notify, and stores its outcome. It returns true if another call is
// needed because none was made, or its outcome was not stored.
func (r *runner) attempt(known Entry, foreseen *ahead) (again bool) {
	ctx, cancel := lasting(r.ctx, grace)
	defer cancel(nil)
	sub, c := r.sub.Load(), known.Consumer
	ctx, leave := r.engine.flights.Enter(ctx, sub) // before asking the gate, so that a revocation cancels it
	defer leave()
	tails, err := r.tails(ctx, sub, &c, foreseen)
	switch {
	case r.isLost(ctx, sub, err):
		return false
	case err != nil:
		r.engine.opts.Log.WarnContext(ctx, "wake: notice delayed", slog.String("subscription", sub.ID), slog.Any("error", err))
		return true
	case c.orphaned(tails):
		return !r.enter(ctx, sub, known, Input{})
	case c.pointless(tails):
		return !r.enter(ctx, sub, known, Input{Answer: &Answer{WakeID: c.WakeID, OK: true, Done: true}})
	}
	letter, err := r.letter(sub, &c, tails)
	if err != nil {
		r.engine.opts.Log.ErrorContext(ctx, "wake: notice cannot be created", slog.String("subscription", sub.ID), slog.Any("error", err))
		return true
	}
	if now := r.entry(c.Path).Consumer; now.Epoch > c.Epoch {
		return false // another wake has begun: a notice of an older epoch must not follow it (S1-128)
	}
	if !r.engine.ports.Owns.Owns(sub.ID) { // checked here too: a machine that was suspended would otherwise send notices until the engine learns that it lost the lease
		return true
	}
	answer := Answer{WakeID: c.WakeID, Number: letter.Number, Sent: tails}
	inTime := r.deadline(ctx, sub, known, answer)
	defer inTime()
	r.engine.opts.Fault("before post")
	a, body := r.engine.ports.Poster.Post(ctx, sub, letter)
	r.engine.opts.Fault("after post")
	if a.Outcome != sluice.Delivered && ctx.Err() != nil {
		return true // the request was cancelled: the next owner of the subscription sends it again
	}
	inTime()
	answer.OK, answer.Error = a.Outcome == sluice.Delivered, a.Error
	answer.Done = answer.OK && saysDone(body)
	r.record(sub, &a)
	return !r.enter(ctx, sub, known, Input{Answer: &answer})
}

// pointless reports whether there is no reason to wake a consumer any more: its messages were
// erased meanwhile, or are withheld.
func (c *Consumer) pointless(tails Tails) bool {
	own := tails[c.Path]
	return c.Follows(c.Path) && (own.Withheld || own.Seq <= own.Start) && len(c.Pending(tails)) == 0
}

// deadline makes a notice fail that is not answered in time. The returned function stops the
// deadline, and waits if the failure is just being stored.
func (r *runner) deadline(ctx context.Context, sub *sluice.Subscription, known Entry, answer Answer) (inTime func()) {
	over := make(chan struct{})
	answer.Error = "neither a 2xx nor a claim within " + r.engine.opts.ClaimWithin.String()
	late := time.AfterFunc(r.engine.opts.ClaimWithin, func() {
		defer close(over)
		r.enter(ctx, sub, known, Input{Answer: &answer})
	})
	return sync.OnceFunc(func() {
		if !late.Stop() {
			<-over
		}
	})
}

// letter returns the letter of a consumer's next attempt.
func (r *runner) letter(sub *sluice.Subscription, c *Consumer, tails Tails) (Letter, error) {
	id := model.WakeConsumerID(sub.ID, c.Path)
	token, err := newToken(r.engine.ports.Keys, Claim{Namespace: sub.Namespace, Consumer: id, Of: c.Of, Epoch: c.Epoch}, r.engine.opts.Now())
	if err != nil {
		return Letter{}, err
	}
	body, err := c.notice(id, r.engine.opts.PublicURL+"/callback/"+sub.Namespace+"/"+id, token, tails, r.engine.ports.Streams.FormatOffset)
	return Letter{WakeID: c.WakeID, Path: c.Path, Seq: tails[c.Path].end(), Number: c.Failures + 1, Body: body}, err
}

// enter executes a step of a consumer with the present tails of its streams, and reports whether
// the result was stored.
func (r *runner) enter(ctx context.Context, sub *sluice.Subscription, known Entry, in Input) bool {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), storeLimit)
	defer cancel()
	if now := r.entry(known.Consumer.Path); now.Revision > 0 {
		known = now
	}
	err := r.persist(ctx, "store the outcome of a notice", func() error {
		_, err := r.engine.change(ctx, sub, known.Consumer.Path, known, func(ctx context.Context, c Consumer) (Input, error) {
			tails, err := r.engine.tails(ctx, sub, c.Path, c.Paths())
			in.Tails = tails
			return in, err
		})
		known = Entry{Consumer: Consumer{Path: known.Consumer.Path}}
		if r.isLost(ctx, sub, err) {
			return backoff.Permanent(err)
		}
		return err
	})
	return err == nil
}

// record stores an attempt in the log. It does not wait, because nothing depends on the result.
func (r *runner) record(sub *sluice.Subscription, a *sluice.Attempt) {
	r.engine.ports.Observe.Notified(sub, a)
	r.engine.ports.Log.Record(a, sub.Namespace, func(err error) {
		if err != nil {
			r.engine.opts.Log.WarnContext(r.ctx, "wake: attempt not logged", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	})
}

// isLost reports whether err says that the subscription lost its access. Then it also ends the
// subscription.
func (r *runner) isLost(ctx context.Context, sub *sluice.Subscription, err error) bool {
	if !errors.Is(err, errLost) {
		return false
	}
	r.engine.revoke(ctx, sub)
	return true
}

// followOthers follows the log for messages in streams that consumers follow besides their own, as
// soon as there are any.
func (r *runner) followOthers(ctx context.Context) {
	select {
	case <-r.foreign:
	case <-ctx.Done():
		return
	}
	_ = r.persist(ctx, "follow other streams", func() error { // it fails only when ctx ends
		return r.engine.ports.Streams.Follow(ctx, r.sub.Load().Namespace, r.heard)
	})
}

// heard handles a message on a path. Without a path, any message may have been missed.
func (r *runner) heard(path sluice.Path, _ uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path != "" {
		for en := range r.others[path] {
			r.hear(en)
		}
		return
	}
	for _, followers := range r.others {
		for en := range followers {
			r.hear(en)
		}
	}
}

func (r *runner) hear(en *entry) {
	en.other = true
	if en.Consumer.State == sluice.WakeIdle {
		r.look(en)
	}
}

// lasting returns a context that ends the given time after another has ended.
func lasting(ctx context.Context, by time.Duration) (context.Context, context.CancelCauseFunc) {
	longer, cancel := context.WithCancelCause(shutdown.Lasting(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel(context.Cause(ctx))
		case <-longer.Done():
		}
	})
	return longer, func(err error) { stop(); cancel(err) }
}
