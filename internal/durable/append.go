package durable

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Admit checks events before they are stored. It may add attributes to them, and refuses them with
// an error.
type Admit func(ctx context.Context, events []sluice.Event) error

// Append is a request to add to a stream, to close it, or both.
type Append struct {
	ContentType string // "": none
	Body        []byte
	Close       bool
	Producer    *Claim
	Seq         string // Stream-Seq, if HasSeq; must sort after the previous one
	HasSeq      bool
	Admit       Admit

	admitted []sluice.Event // the checked events of an attempt that lost to a concurrent change
}

// Appended is the outcome of an append, errors included.
type Appended struct {
	Next     uint64 // the stream's end; valid without an error, and if Closed
	Closed   bool
	Verdict  Verdict
	Producer *Claim // the producer's epoch and highest accepted sequence
	Expected int64  // the sequence that was expected, if the verdict is Gap
}

// Append stores messages at the end of a stream. Codes: NotFound; StreamGone; InvalidRequest;
// TooLarge; Conflict if the stream is closed or has another content type, or if a sequence is out
// of order; Forbidden for an old epoch of the producer; and those of Admit.
func (e *Engine) Append(ctx context.Context, key Key, a Append) (done Appended, err error) {
	try := e.tryKept
	if a.leavesRecord() { // the usual case, in which no lock is needed
		try = e.tryStored
		for _, first := range []func(context.Context, Key, *Append) (Appended, error){e.tryRecalled, e.tryFree} {
			if done, err = first(ctx, key, &a); !isRace(err) {
				return done, err
			}
		}
	}
	end, err := e.turns.Take(ctx, key)
	if err != nil {
		return Appended{}, err
	}
	defer end()
	err = again(ctx, func() error {
		done, err = try(ctx, key, &a)
		return err
	})
	return done, err
}

// leavesRecord reports whether an append can leave the stream's record unchanged.
func (a *Append) leavesRecord() bool { return a.Producer == nil && !a.HasSeq && !a.Close }

// tryRecalled tries an append with the record in memory. The commit is fenced by that record's
// revision. If there would be no such commit, it returns ErrRace, so that the stored record
// decides.
func (e *Engine) tryRecalled(ctx context.Context, key Key, a *Append) (Appended, error) {
	now := e.now()
	s, ok := e.memory.recall(key, now)
	if !ok || s.expired(now) {
		return Appended{}, ErrRace
	}
	plan, messages, err := e.prepare(s, a)
	if err != nil || !plan.accepted || plan.next != nil {
		return Appended{}, ErrRace
	}
	return e.carryOut(ctx, s, a, plan, messages)
}

// tryFree is tryStored for a caller that does not hold the stream's lock.
func (e *Engine) tryFree(ctx context.Context, key Key, a *Append) (Appended, error) {
	s, err := e.present(ctx, key)
	if err == nil {
		err = e.rescue(ctx, s)
	}
	if err != nil {
		return Appended{}, err
	}
	return e.appendTo(ctx, s, a)
}

// tryStored tries an append with the stored record.
func (e *Engine) tryStored(ctx context.Context, key Key, a *Append) (Appended, error) {
	s, err := e.present(ctx, key)
	if err != nil {
		return Appended{}, err
	}
	return e.appendTo(ctx, s, a)
}

func (e *Engine) appendTo(ctx context.Context, s *stream, a *Append) (Appended, error) {
	plan, messages, err := e.prepare(s, a)
	if err != nil {
		return e.refused(ctx, s, plan, err)
	}
	e.memory.remember(s, e.now())
	return e.carryOut(ctx, s, a, plan, messages)
}

// present reads a stream. Codes: NotFound; StreamGone.
func (e *Engine) present(ctx context.Context, key Key) (*stream, error) {
	s, found, err := e.open(ctx, key)
	if err == nil && !found {
		err = NotThere()
	}
	return s, err
}

// prepare decides about an append and returns its messages.
func (e *Engine) prepare(s *stream, a *Append) (plan, [][]byte, error) {
	p, err := s.decide(a, e.now())
	if err != nil {
		return p, nil, err
	}
	messages, err := e.messages(a.Body, s.ContentType)
	if err != nil {
		return plan{}, nil, err
	}
	if len(messages) == 0 && len(a.Body) > 0 {
		return plan{}, nil, sluice.Errorf(sluice.InvalidRequest, "an empty array appends nothing")
	}
	return p, messages, nil
}

// refused returns the result of a refused append. For a closed stream that includes its end.
func (e *Engine) refused(ctx context.Context, s *stream, plan plan, err error) (Appended, error) {
	if !plan.Closed {
		return plan.Appended, err
	}
	tail, tailErr := e.tail(ctx, s)
	if tailErr != nil {
		return Appended{}, tailErr
	}
	plan.Next = tail
	return plan.Appended, err
}

// carryOut stores the result of a decision.
func (e *Engine) carryOut(ctx context.Context, s *stream, a *Append, plan plan, messages [][]byte) (Appended, error) {
	var events []sluice.Event
	var err error
	if !plan.nothing {
		if events, err = e.admit(ctx, s, a, messages); err != nil {
			return Appended{}, err
		}
	}
	done := plan.Appended
	switch {
	case plan.next != nil:
		next := *plan.next
		if plan.accepted && a.Producer != nil {
			next.accept(*a.Producer, e.now())
		}
		done.Next, err = e.record(ctx, s, next, events)
	case len(events) > 0:
		done.Next, err = e.store.Commit(ctx, Commit{Namespace: s.key.Namespace, Events: events, Fence: Fence{s.key.Path, s.revision}})
	}
	if err != nil {
		return Appended{}, err
	}
	if len(events) == 0 {
		done.Next, err = e.tail(ctx, s)
	}
	return done, err
}

// record stores events and, behind them, a stream's next record. It returns the result of Commit:
// the sequence of the last event, or that of the record if there are no events.
func (e *Engine) record(ctx context.Context, s *stream, next Record, events []sluice.Event) (uint64, error) {
	change, err := s.change(next, e.now())
	if err != nil {
		return 0, err
	}
	last, err := e.store.Commit(ctx, Commit{Namespace: s.key.Namespace, Events: events, Fence: change.Fence, Changes: []Change{change}})
	if err != nil {
		return 0, err
	}
	next.Writes++
	s.Record, s.revision = next, last
	if len(events) > 0 {
		s.revision++
	}
	e.memory.remember(s, e.now())
	return last, nil
}

// admit returns the events of an append. It checks them only once, however often the append is
// tried.
func (e *Engine) admit(ctx context.Context, s *stream, a *Append, messages [][]byte) ([]sluice.Event, error) {
	if a.admitted != nil {
		return a.admitted, nil
	}
	events, err := e.events(s.key, s.ContentType, messages)
	if err == nil && a.Admit != nil && len(events) > 0 {
		err = a.Admit(ctx, events)
	}
	if err != nil {
		return nil, err
	}
	a.admitted = events
	return events, nil
}

// plan is the decision about an append.
type plan struct {
	Appended

	accepted bool    // the append is accepted, and stored if the record is unchanged
	next     *Record // the next record, without the producer's new state; nil: the record stays
	nothing  bool    // no message is stored
}

// decide decides about an append. It checks in this order: whether the stream is closed, the
// content type, the producer, Stream-Seq.
func (s *stream) decide(a *Append, now time.Time) (plan, error) {
	p := plan{}
	empty := len(a.Body) == 0
	p.nothing = empty
	verdict, err := s.judge(a, &p)
	switch {
	case s.Closed:
		return s.decideClosed(a, p, verdict, now)
	case !empty && a.ContentType == "":
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append requires the header Content-Type")
	case empty && !a.Close:
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append requires a body, unless it closes the stream")
	case !empty && MediaType(a.ContentType) != MediaType(s.ContentType):
		return plan{}, sluice.Errorf(sluice.Conflict, "the stream has another content type: %s", s.ContentType)
	case err != nil:
		return p, err
	case verdict == Duplicate:
		p.nothing = true
		p.next = s.renewed(now)
		return p, nil
	case a.HasSeq && s.HasSeq && a.Seq <= s.Seq:
		return plan{}, sluice.Errorf(sluice.Conflict, "Stream-Seq must sort after the previous one")
	}
	p.next = s.after(a, now)
	p.Closed, p.accepted = a.Close, true
	return p, nil
}

// judge sets the verdict on the producer in a plan.
func (s *stream) judge(a *Append, p *plan) (Verdict, error) {
	if a.Producer == nil {
		return Accepted, nil
	}
	c, known := *a.Producer, s.producer(a.Producer.ID)
	p.Verdict = judge(known, c)
	switch p.Verdict {
	case Accepted:
		p.Producer = &c
	case Duplicate:
		p.Producer = &Claim{c.ID, known.Epoch, known.Seq}
	case StaleEpoch:
		p.Producer = &Claim{c.ID, known.Epoch, known.Seq}
		return p.Verdict, sluice.Errorf(sluice.Forbidden, "the producer has started epoch %d", known.Epoch)
	case LateStart:
		return p.Verdict, sluice.Errorf(sluice.InvalidRequest, "a new epoch must start with Producer-Seq 0")
	case Gap:
		if known != nil {
			p.Expected = known.Seq + 1
		}
		return p.Verdict, sluice.Errorf(sluice.Conflict, "expected Producer-Seq %d in epoch %d, got %d", p.Expected, c.Epoch, c.Seq)
	}
	return p.Verdict, nil
}

// decideClosed is decide for a closed stream. It accepts only repetitions of the closing append and
// of earlier appends.
func (s *stream) decideClosed(a *Append, p plan, verdict Verdict, now time.Time) (plan, error) {
	p.Closed, p.nothing = true, true
	switch {
	case verdict == StaleEpoch:
		return p, sluice.Errorf(sluice.Forbidden, "the producer has started epoch %d", p.Producer.Epoch)
	case a.Producer != nil && verdict == Duplicate, a.Producer == nil && len(a.Body) == 0 && a.Close:
		p.next = s.renewed(now)
		return p, nil
	case a.Producer == nil && len(a.Body) == 0:
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append requires a body, unless it closes the stream")
	}
	p.Verdict, p.Producer = Accepted, nil
	return p, sluice.Errorf(sluice.Conflict, "the stream is closed")
}

// renewed returns the record with a renewed lifetime, nil if it needs no renewal.
func (s *stream) renewed(now time.Time) *Record {
	if !s.stale(now) {
		return nil
	}
	next := s.Record
	next.Renewed = now.UTC()
	return &next
}

// after returns the record after an append, apart from the producer's state; nil if it is
// unchanged.
func (s *stream) after(a *Append, now time.Time) *Record {
	if s.ID != "" && a.Producer == nil && !a.HasSeq && !a.Close && !s.stale(now) {
		return nil
	}
	next := s.Record
	if next.ID == "" { // the first append to the path creates the stream
		next.ID = newID()
	}
	if next.Lifetime.TTL != nil {
		next.Renewed = now.UTC()
	}
	if a.HasSeq {
		next.Seq, next.HasSeq = a.Seq, true
	}
	if a.Close {
		next.Closed, next.ClosingBy = true, a.Producer
	}
	return &next
}
