package durable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// A record that changes with every append costs a batch each time, and a batch is slow. So an engine to which such
// appends come in a row makes itself the owner of the stream's record: from then on what an append changes of the
// record travels as a note with its event, fenced by the record as any append is, and the record is written again
// every now and then. Who is not the owner and wants to change what notes change becomes the owner first, which
// ends what the other may do, since the record is another then; and reads the notes that are not in the record yet.
const (
	// ownerless is after how long an owner that has not written the record is taken to be gone.
	ownerless = 10 * time.Second
	// tendEvery is how often an owner looks which records it has to write.
	tendEvery = 250 * time.Millisecond
	// maxNoted is after how many notes the record is written in any case.
	maxNoted = 10_000
	// farewell is how long an engine that ends tries to write its records.
	farewell = 5 * time.Second
)

// Note is what an append changed of a stream's record.
type Note struct {
	Stream   string    `json:"stream"` // the id: of another one on the path it says nothing
	Producer *Claim    `json:"producer,omitempty"`
	Seq      string    `json:"seq,omitempty"`
	HasSeq   bool      `json:"has_seq,omitempty"`
	At       time.Time `json:"at"`
}

// hold is what an engine knows of a stream to which appends come that change the record.
type hold struct {
	stream // the record is as of the revision, but for what notes changed since

	sure  time.Time // when the revision was known to be the stored one; zero: it may not be
	noted int       // notes that are not in the stored record
	upTo  uint64    // the sequence of the last of them
	used  bool      // since the engine looked last
}

// owns reports whether the engine may write notes.
func (h *hold) owns() bool { return h.Owner != "" }

// heed enters what a note says. It only ever goes forward: to hear it again changes nothing.
func (r *Record) heed(n Note) {
	if n.Stream != r.ID {
		return
	}
	if n.HasSeq && (!r.HasSeq || n.Seq > r.Seq) {
		r.Seq, r.HasSeq = n.Seq, true
	}
	if n.Producer == nil {
		return
	}
	known := r.producer(n.Producer.ID)
	if known == nil || n.Producer.Epoch > known.Epoch || n.Producer.Epoch == known.Epoch && n.Producer.Seq > known.Seq {
		r.enter(*n.Producer, n.At)
	}
}

// tryKept is a try of an append that changes the record, by whoever has the stream's turn.
func (e *Engine) tryKept(ctx context.Context, key Key, a *Append) (Appended, error) {
	now := e.now()
	if h := e.memory.hold(key); h != nil && now.Sub(h.sure) < believed && !h.expired(now) {
		plan, messages, err := e.prepare(&h.stream, a)
		if err == nil && plan.accepted { // anything else is not fenced
			return e.keep(ctx, h, a, plan, messages)
		}
	}
	h, err := e.grip(ctx, key)
	if err != nil {
		return Appended{}, err
	}
	plan, messages, err := e.prepare(&h.stream, a)
	if err != nil {
		return e.refused(ctx, &h.stream, plan, err)
	}
	return e.keep(ctx, h, a, plan, messages)
}

// keep carries out what was decided about a stream that is held.
func (e *Engine) keep(ctx context.Context, h *hold, a *Append, plan plan, messages [][]byte) (Appended, error) {
	if !plan.accepted {
		return e.carryOut(ctx, &h.stream, a, plan, messages)
	}
	if !plan.nothing {
		if _, err := e.admit(ctx, &h.stream, a, messages); err != nil {
			return Appended{}, err
		}
	}
	single := len(messages) == 1 && !a.Close && h.ID != "" && !h.stale(e.now()) && h.noted < maxNoted
	if single && !h.owns() && h.used {
		if err := e.own(ctx, h); err != nil {
			return Appended{}, e.lost(h, err)
		}
	}
	h.used = true
	if single && h.owns() {
		done, err := e.note(ctx, h, a, plan, messages)
		return done, e.lost(h, err)
	}
	plan.next.Base, plan.next.OwnedAt = h.upTo, e.now().UTC()
	if a.Close || !h.owns() { // nothing will be noted behind this record
		plan.next.giveUp()
	}
	done, err := e.carryOut(ctx, &h.stream, a, plan, messages)
	if err == nil {
		h.noted, h.upTo = 0, h.revision
	}
	return done, e.lost(h, err)
}

// lost returns an error of storing, after which what is held may not be so any more. Somebody who was faster has left
// us the owner or not, which the record will say; after any other error something may be stored later still.
func (e *Engine) lost(h *hold, err error) error {
	switch {
	case err == nil:
		h.sure = e.now()
	case isRace(err):
		h.sure = time.Time{}
		e.memory.recent.Remove(h.key)
	default:
		e.memory.drop(h.key)
	}
	return err
}

// note stores an append's event with what it changes of the record.
func (e *Engine) note(ctx context.Context, h *hold, a *Append, plan plan, messages [][]byte) (Appended, error) {
	n := Note{Stream: h.ID, Producer: a.Producer, Seq: a.Seq, HasSeq: a.HasSeq, At: e.now().UTC()}
	data, err := json.Marshal(n)
	if err != nil {
		return Appended{}, fmt.Errorf("stream %s%s: note: %w", h.key.Namespace, h.key.Path, err)
	}
	events, err := e.admit(ctx, &h.stream, a, messages)
	if err != nil {
		return Appended{}, err
	}
	done := plan.Appended
	done.Next, err = e.store.Commit(ctx, Commit{
		Namespace: h.key.Namespace, Events: events, Fence: Fence{h.key.Path, h.revision}, Note: data,
	})
	if err != nil {
		return Appended{}, err
	}
	h.heed(n)
	h.noted++
	h.upTo = max(h.upTo, done.Next)
	return done, nil
}

// grip reads a stream's record and what is noted since. Code NotFound; Gone.
func (e *Engine) grip(ctx context.Context, key Key) (*hold, error) {
	s, err := e.present(ctx, key)
	if err != nil {
		e.memory.drop(key)
		return nil, err
	}
	old := e.memory.hold(key)
	h := &hold{stream: *s, sure: e.now(), upTo: max(s.Base, s.revision)}
	switch {
	case !h.owns():
		h.used = old != nil && old.used
	case old != nil && old.Owner == h.Owner && old.ID == h.ID:
		h.Producers, h.Seq, h.HasSeq = old.Producers, old.Seq, old.HasSeq
		h.noted, h.upTo, h.used = old.noted, old.upTo, old.used
	default:
		h.upTo = h.Base
		if err := e.takeOver(ctx, h); err != nil {
			e.memory.drop(key)
			return nil, err
		}
	}
	e.memory.keep(h)
	return h, nil
}

// takeOver makes the engine the owner of a stream that another one owns, and reads what that noted.
func (e *Engine) takeOver(ctx context.Context, h *hold) error {
	if err := e.own(ctx, h); err != nil {
		return err
	}
	for {
		notes, last, err := e.store.Notes(ctx, h.key.Namespace, h.key.Path, h.upTo, h.revision)
		if err != nil || last == 0 {
			return err
		}
		for _, data := range notes {
			var n Note
			if err := json.Unmarshal(data, &n); err != nil {
				return fmt.Errorf("stream %s%s: note: %w", h.key.Namespace, h.key.Path, err)
			}
			h.heed(n)
			h.noted++
		}
		h.upTo = last
	}
}

// own makes the engine the owner of a stream's record, which has what is noted up to h.upTo.
func (e *Engine) own(ctx context.Context, h *hold) error {
	return e.write(ctx, h, rand.Text(), h.upTo)
}

// write writes a stream's record.
func (e *Engine) write(ctx context.Context, h *hold, owner string, base uint64) error {
	next := h.Record
	next.Owner, next.OwnedAt, next.Base = owner, e.now().UTC(), base
	if owner == "" {
		next.giveUp()
	}
	_, err := e.record(ctx, &h.stream, next, nil)
	return err
}

// Run writes the records of streams that this engine owns, and gives them up when nobody appends to them any more,
// until ctx ends; then it gives them all up. Without it they are written less often.
func (e *Engine) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.tendAll(ctx, log, false)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(shutdown.Lasting(ctx), farewell)
			defer cancel()
			e.tendAll(last, log, true)
			return nil
		}
	}
}

func (e *Engine) tendAll(ctx context.Context, log *slog.Logger, last bool) {
	for _, key := range e.memory.held() {
		err := e.tend(ctx, key, last)
		if err == nil || isRace(err) || shutdown.Left(ctx, "records of streams", 1) {
			continue
		}
		if ctx.Err() == nil {
			log.WarnContext(ctx, "record of a stream not written yet",
				slog.String("namespace", key.Namespace), slog.String("path", string(key.Path)), slog.Any("error", err))
		}
	}
}

// tend writes a stream's record if there is something new, and lets the stream go if there is not.
func (e *Engine) tend(ctx context.Context, key Key, last bool) error {
	end, err := e.turns.Take(ctx, key)
	if err != nil {
		return err
	}
	defer end()
	h := e.memory.hold(key)
	if h == nil {
		return nil
	}
	idle := last || !h.used
	h.used = false
	switch {
	case !h.owns() && idle:
		e.memory.drop(key)
		return nil
	case idle:
		return e.release(ctx, h)
	case h.owns() && h.noted > 0:
		return e.checkpoint(ctx, h)
	}
	return nil
}

// checkpoint writes the record of a stream that the engine owns.
func (e *Engine) checkpoint(ctx context.Context, h *hold) error {
	h, err := e.sure(ctx, h)
	if err != nil || !h.owns() {
		return err
	}
	if err := e.write(ctx, h, h.Owner, h.upTo); err != nil {
		h.sure = time.Time{}
		return err
	}
	h.noted = 0
	return nil
}

// release writes the record of a stream that the engine owns, and gives it up.
func (e *Engine) release(ctx context.Context, h *hold) error {
	h, err := e.sure(ctx, h)
	if isLost(err) {
		return nil // there is no stream any more, and nothing held of it
	}
	if err != nil {
		return err
	}
	if h.owns() {
		if err := e.write(ctx, h, "", 0); err != nil {
			h.sure = time.Time{}
			return err
		}
	}
	e.memory.drop(h.key)
	return nil
}

// sure returns a hold whose record is the stored one, as far as is known.
func (e *Engine) sure(ctx context.Context, h *hold) (*hold, error) {
	if !h.sure.IsZero() {
		return h, nil
	}
	return e.grip(ctx, h.key)
}

// giveUp leaves a record that says all without an owner.
func (r *Record) giveUp() { r.Owner, r.OwnedAt, r.Base = "", time.Time{}, 0 }

// abandoned reports whether a record's owner seems to be gone without having written it.
func (r *Record) abandoned(now time.Time) bool {
	return r.Owner != "" && now.Sub(r.OwnedAt) > ownerless
}

// rescue writes the record of a stream whose owner is gone, before what it noted leaves the log.
func (e *Engine) rescue(ctx context.Context, s *stream) error {
	if !s.abandoned(e.now()) {
		return nil
	}
	end, err := e.turns.Take(ctx, s.key)
	if err != nil {
		return err
	}
	defer end()
	h, err := e.grip(ctx, s.key)
	if err != nil {
		return err
	}
	return e.release(ctx, h)
}
