package wake_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// op is one read, one write or one effect of a task, and what comes after it; nil is the end. A replica may
// die, and another do something, between any two.
type op func() op

// replica is a process that runs Step: as any driver of it has to, but no more.
type replica struct {
	world   *world
	id      int
	alive   bool
	leads   bool          // it believes that it has the lease
	skew    time.Duration // of its clock
	tasks   []op
	flights []*flight
	sent    map[string]bool // attempts that it has made
	posting map[sluice.Path]bool
}

// flight is an attempt that a replica waits for.
type flight struct {
	*request
	gaveUp bool
}

func (r *replica) start() {
	w := r.world
	r.alive, r.leads, r.tasks, r.flights = true, w.owner == r.id, nil, nil
	r.sent, r.posting = map[string]bool{}, map[sluice.Path]bool{}
	r.skew = time.Duration(w.random.IntN(4000)-2000) * time.Millisecond
}

func (r *replica) kill() {
	if r.world.tell("kill", "replica %d with %d tasks and %d requests", r.id, len(r.tasks), len(r.flights)); len(r.tasks) > 0 {
		r.world.seen["kill in the middle"]++
	}
	r.alive, r.leads, r.tasks, r.flights = false, false, nil, nil
}

func (r *replica) now() time.Time { return r.world.now.Add(r.skew) }

func (r *replica) begin(task op) { r.tasks = append(r.tasks, task) }

// busy reports whether it has enough to do.
func (r *replica) busy() bool { return len(r.tasks) >= 6 }

// work does one op of one of its tasks.
func (r *replica) work() {
	if len(r.tasks) == 0 {
		return
	}
	at := r.world.random.IntN(len(r.tasks))
	if next := r.tasks[at](); next != nil {
		r.tasks[at] = next
		return
	}
	r.tasks = slices.Delete(r.tasks, at, at+1)
}

func (r *replica) rules() wake.Rules {
	return wake.Rules{
		Retry:  sluice.Retry{Preset: sluice.PresetPersistent},
		Random: r.world.random.Float64,
		NewWakeID: func() string {
			r.world.ids++
			return fmt.Sprintf("w%d", r.world.ids)
		},
	}
}

// change is something that happens to a consumer: read it, read its streams, decide, write. named is what else has
// to be known. then is told what came of it.
func (r *replica) change(path sluice.Path, in wake.Input, named []sluice.Path, then func(*wake.Consumer, sluice.Code)) op {
	w := r.world
	return func() op {
		c, revision := w.get(path)
		if revision == 0 || w.sub == 0 || c.Of != incarnation(w.sub) {
			then(&c, sluice.WakeGone)
			return nil
		}
		return func() op {
			in.Tails, in.End = w.tails(append(c.Paths(), named...)), w.seq
			return r.decide(&c, revision, in, func(next *wake.Consumer, code sluice.Code) op {
				if next == nil {
					return r.change(path, in, named, then)
				}
				then(next, code)
				return nil
			})
		}
	}
}

// decide is the second half of change; then gets no consumer if the race was lost.
func (r *replica) decide(c *wake.Consumer, revision int, in wake.Input, then func(*wake.Consumer, sluice.Code) op) op {
	w := r.world
	return func() op {
		now := r.now()
		next, err := r.rules().Step(*c, in, now)
		if wrong := (&reference{before: *c, in: in, now: now}).judge(&next, err); wrong != nil {
			w.wrong(fmt.Errorf("%s on %s: %w", describe(&in), c.Path, wrong))
		}
		w.notice(c, &next, &in)
		if err == nil && oversteps(c, &in) {
			w.seen["callback acknowledges what is no more"]++
		}
		if !of(c).equal(of(&next)) || !c.Due.Equal(next.Due) || c.Failures != next.Failures {
			if !w.put(&next, revision) {
				return then(nil, "")
			}
		}
		return func() op { return then(&next, codeOf(err)) }
	}
}

// oversteps reports whether a callback acknowledges more than a stream of the consumer has by now.
func oversteps(c *wake.Consumer, in *wake.Input) bool {
	return in.Callback != nil && slices.ContainsFunc(in.Callback.Acks, func(ack wake.Position) bool {
		was, followed := of(c).acked[ack.Path]
		return followed && ack.Acked > max(was, in.Tails[ack.Path].Seq)
	})
}

func describe(in *wake.Input) string {
	switch {
	case in.Callback != nil:
		return fmt.Sprintf("callback %+v with %v", *in.Callback, in.Tails)
	case in.Answer != nil:
		return fmt.Sprintf("answer %+v with %v", *in.Answer, in.Tails)
	}
	return fmt.Sprintf("look with %v", in.Tails)
}

// notice counts which rules were met, so that the test knows that it tries them all.
func (w *world) notice(c, next *wake.Consumer, in *wake.Input) {
	kind := "look"
	if in.Callback != nil {
		kind = "callback"
	}
	if in.Answer != nil {
		kind = map[bool]string{true: "answer", false: "failure"}[in.Answer.OK]
		if in.Answer.Done {
			kind = "done"
		}
	}
	if next.State == sluice.WakeRemoved && kind == "failure" && !in.Tails[c.Path].Gone && in.Tails[c.Path].Start < c.Since {
		kind = "three days"
	}
	if c.State != next.State || c.Epoch != next.Epoch {
		w.seen[fmt.Sprintf("%s: %s to %s", kind, c.State, next.State)]++
	}
}

// sweep makes the consumer of a stream, if there is none, or one of an earlier life, or what was removed is to come
// back.
func (r *replica) sweep(path sluice.Path) op {
	w := r.world
	return func() op {
		sub, from := w.sub, w.from
		c, revision := w.get(path)
		return func() op {
			s := *w.streams[path]
			c.Path = path
			next := s.born(&c, sub, from)
			if sub == 0 || !s.alive || next == nil {
				return nil
			}
			return func() op {
				if revision > 0 {
					w.seen["comes back"]++
				}
				w.put(next, revision)
				return nil
			}
		}
	}
}

// born returns the consumer of a stream that takes the place of what is stored; nil if that stays.
func (s *stream) born(c *wake.Consumer, sub int, from uint64) *wake.Consumer {
	if c.Of != incarnation(sub) { // of an earlier subscription, or none
		next := wake.NewConsumer(c.Path, incarnation(sub), s.start+1, s.upTo(from))
		next.Epoch = c.Epoch
		return &next
	}
	if c.State != sluice.WakeRemoved {
		return nil
	}
	next := c.Back(s.upTo(^uint64(0)))
	if next != nil {
		next.Since = s.start + 1
	}
	return next
}

// look is a turn of the owner's clock.
func (r *replica) look(path sluice.Path) op {
	return r.change(path, wake.Input{}, nil, func(*wake.Consumer, sluice.Code) {})
}

// post sends the notice of a consumer if one is due: one at a time of each.
func (r *replica) post(path sluice.Path) op {
	w := r.world
	if r.posting[path] {
		return func() op { return nil }
	}
	r.posting[path] = true
	return func() op {
		r.posting[path] = false
		c, revision := w.get(path)
		attempt := fmt.Sprintf("%s/%d", c.WakeID, c.Failures+1)
		if revision == 0 || w.sub == 0 || c.Of != incarnation(w.sub) || c.State != sluice.WakeWaking || c.Due.After(r.now()) || r.sent[attempt] {
			return nil
		}
		r.posting[path], r.sent[attempt] = true, true
		term := w.term
		return func() op {
			sent := w.tails(c.Paths())
			return func() op {
				r.posting[path] = false
				r.flights = append(r.flights, &flight{request: w.receive(&c, sent, w.owner != r.id || w.term != term)})
				return nil
			}
		}
	}
}

// wait looks after the requests that are under way: 10 s for a claim, 30 s for an answer.
func (r *replica) wait() {
	for _, f := range slices.Clone(r.flights) {
		age := r.world.now.Sub(f.at)
		switch {
		case f.answer != nil:
			r.land(f, *f.answer)
		case age >= 30*time.Second:
			r.land(f, wake.Answer{Error: "timeout"})
		case age >= 10*time.Second && !f.gaveUp:
			f.gaveUp = true
			r.answered(f, wake.Answer{Error: "no claim"})
		}
	}
}

func (r *replica) land(f *flight, a wake.Answer) {
	r.flights = slices.DeleteFunc(r.flights, func(o *flight) bool { return o == f })
	r.answered(f, a)
}

func (r *replica) answered(f *flight, a wake.Answer) {
	a.WakeID, a.Number = f.wakeID, f.number
	if a.Done {
		a.Sent = maps.Clone(f.sent)
	}
	r.begin(r.change(f.path, wake.Input{Answer: &a}, slices.Collect(maps.Keys(f.sent)), func(*wake.Consumer, sluice.Code) {}))
}
