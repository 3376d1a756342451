package durable

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Admit looks at events before they are stored, may add to them, and refuses them with an error.
type Admit func(ctx context.Context, events []sluice.Event) error

// Append is a wish to add to a stream, to close it, or both.
type Append struct {
	ContentType string // "" is none
	Body        []byte
	Close       bool
	Producer    *Claim
	Seq         string // larger than the one before
	HasSeq      bool
	Admit       Admit

	admitted []sluice.Event // the events of a try that others were faster than
}

// Appended is what became of a wish, errors included.
type Appended struct {
	Next     uint64 // where the stream ends; meaningful without an error or if Closed
	Closed   bool
	Verdict  Verdict
	Producer *Claim // what the producer is told: its epoch and the highest sequence accepted of it
	Expected int64  // the sequence that is missing before that of the request, if the verdict is Gap
}

// Append stores messages at the end of a stream. Codes: NotFound; Gone; InvalidRequest; TooLarge; Conflict
// if it is closed, of another content type, or an order of the producer's is broken; Forbidden for a
// producer's earlier life; and those of Admit.
func (e *Engine) Append(ctx context.Context, key Key, a Append) (done Appended, err error) {
	act := func() error {
		done, err = e.tryAppend(ctx, key, &a)
		return err
	}
	if a.Producer == nil && !a.HasSeq && !a.Close { // the record stays, mostly: nobody has to wait
		if err := act(); !isRace(err) {
			return done, err
		}
	}
	end, err := e.turns.take(ctx, key)
	if err != nil {
		return Appended{}, err
	}
	defer end()
	err = again(ctx, act)
	return done, err
}

func (e *Engine) tryAppend(ctx context.Context, key Key, a *Append) (Appended, error) {
	s, found, err := e.open(ctx, key)
	if err != nil {
		return Appended{}, err
	}
	if !found {
		return Appended{}, missing()
	}
	plan, err := s.decide(a, e.now())
	if err != nil {
		if plan.Closed {
			tail, tailErr := e.tail(ctx, s)
			if tailErr != nil {
				return Appended{}, tailErr
			}
			plan.Next = tail
		}
		return plan.Appended, err
	}
	messages, err := e.messages(a.Body, s.ContentType)
	if err != nil {
		return Appended{}, err
	}
	if len(messages) == 0 && len(a.Body) > 0 {
		return Appended{}, sluice.Errorf(sluice.InvalidRequest, "an empty array appends nothing")
	}
	return e.carryOut(ctx, s, a, plan, messages)
}

// carryOut stores what was decided.
func (e *Engine) carryOut(ctx context.Context, s *stream, a *Append, plan plan, messages [][]byte) (Appended, error) {
	c := Commit{Namespace: s.key.Namespace, Fence: Fence{s.key.Path, s.revision}}
	if plan.next != nil {
		change, err := s.change(*plan.next, e.now())
		if err != nil {
			return Appended{}, err
		}
		c.Changes = []Change{change}
	}
	var err error
	if !plan.nothing {
		if c.Events, err = e.admit(ctx, s, a, messages); err != nil {
			return Appended{}, err
		}
	}
	done := plan.Appended
	if len(c.Events)+len(c.Changes) > 0 {
		if done.Next, err = e.store.Commit(ctx, c); err != nil {
			return Appended{}, err
		}
	}
	if len(c.Events) == 0 {
		done.Next, err = e.tail(ctx, s)
	}
	return done, err
}

// admit returns the events of an append, which are asked about once.
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

// plan is what an append comes to.
type plan struct {
	Appended

	next    *Record // nil: the record stays
	nothing bool    // no message is stored
}

// decide says what becomes of an append. What is closed is looked at first, then the content type,
// then the producer, then Stream-Seq.
func (s *stream) decide(a *Append, now time.Time) (plan, error) {
	p := plan{}
	empty := len(a.Body) == 0
	p.nothing = empty
	verdict, err := s.judge(a, &p)
	switch {
	case s.Closed:
		return s.decideClosed(a, p, verdict, now)
	case !empty && a.ContentType == "":
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append needs the header Content-Type")
	case empty && !a.Close:
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append needs a body, unless it closes the stream")
	case !empty && MediaType(a.ContentType) != MediaType(s.ContentType):
		return plan{}, sluice.Errorf(sluice.Conflict, "the stream is of another content type: %s", s.ContentType)
	case err != nil:
		return p, err
	case verdict == Duplicate:
		p.nothing = true
		p.next = s.renewed(now)
		return p, nil
	case a.HasSeq && s.HasSeq && a.Seq <= s.Seq:
		return plan{}, sluice.Errorf(sluice.Conflict, "Stream-Seq is not behind the last one")
	}
	p.next = s.after(a, now)
	p.Closed = a.Close
	return p, nil
}

// judge enters into a plan what the producer of an append is told.
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
		return p.Verdict, sluice.Errorf(sluice.Forbidden, "the producer has begun epoch %d", known.Epoch)
	case LateStart:
		return p.Verdict, sluice.Errorf(sluice.InvalidRequest, "a new epoch of a producer begins with Producer-Seq 0")
	case Gap:
		if known != nil {
			p.Expected = known.Seq + 1
		}
		return p.Verdict, sluice.Errorf(sluice.Conflict, "Producer-Seq %d comes next", p.Expected)
	}
	return p.Verdict, nil
}

// decideClosed is decide for a closed stream: what closed it, and what came before, may be said again.
func (s *stream) decideClosed(a *Append, p plan, verdict Verdict, now time.Time) (plan, error) {
	p.Closed, p.nothing = true, true
	switch {
	case verdict == StaleEpoch:
		return p, sluice.Errorf(sluice.Forbidden, "the producer has begun epoch %d", p.Producer.Epoch)
	case a.Producer != nil && verdict == Duplicate, a.Producer == nil && len(a.Body) == 0 && a.Close:
		p.next = s.renewed(now)
		return p, nil
	case a.Producer == nil && len(a.Body) == 0:
		return plan{}, sluice.Errorf(sluice.InvalidRequest, "an append needs a body, unless it closes the stream")
	}
	p.Verdict, p.Producer = Accepted, nil
	return p, sluice.Errorf(sluice.Conflict, "the stream is closed")
}

// renewed returns the record with its use written down, nil if that need not be.
func (s *stream) renewed(now time.Time) *Record {
	if !s.stale(now) {
		return nil
	}
	next := s.Record
	next.Renewed = now.UTC()
	return &next
}

// after returns the record as it is after an append, nil if it stays as it is.
func (s *stream) after(a *Append, now time.Time) *Record {
	if s.ID != "" && a.Producer == nil && !a.HasSeq && !a.Close && !s.stale(now) {
		return nil
	}
	next := s.Record
	if next.ID == "" { // nobody made it a stream before
		next.ID = newID()
	}
	if next.Lifetime.TTL != nil {
		next.Renewed = now.UTC()
	}
	if a.Producer != nil {
		next.accept(*a.Producer, now)
	}
	if a.HasSeq {
		next.Seq, next.HasSeq = a.Seq, true
	}
	if a.Close {
		next.Closed, next.ClosingBy = true, a.Producer
	}
	return &next
}
