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

// An append that changes the stream's record costs an atomic batch, and a batch is slow. So an
// engine that gets repeated such appends makes itself the owner of the record. From then on it
// stores an append's change of the record as a note with the event, fenced by the record as any
// append is, and rewrites the record only from time to time. Another engine that wants to change
// the record first becomes the owner. That changes the record, and so fences the previous owner.
// Then the new owner reads the notes that are not in the record yet.
const (
	// ownerless is the time without a write after which an owner counts as gone.
	ownerless = 10 * time.Second
	// tendEvery is the interval at which an owner checks which records it has to write.
	tendEvery = 250 * time.Millisecond
	// maxNoted is the number of notes after which the record has to be written.
	maxNoted = 10_000
	// farewell is the timeout of the final writes of an engine that ends.
	farewell = 5 * time.Second
)

// Note is the change of a stream's record by one append.
type Note struct {
	Stream   string    `json:"stream"` // the stream's id; the note does not apply to another stream on the path
	Producer *Claim    `json:"producer,omitempty"`
	Seq      string    `json:"seq,omitempty"`
	HasSeq   bool      `json:"has_seq,omitempty"`
	At       time.Time `json:"at"`
}

// hold is an engine's state of a stream whose appends change the record. The stream's lock guards
// it.
type hold struct {
	stream // the record at the revision, with the changes noted since applied

	sure  time.Time // when the revision was last known to be the stored one; zero: it may not be
	noted int       // number of notes that are not in the stored record
	upTo  uint64    // sequence of the last of these notes
	used  bool      // used since the engine's last check
}

// owns reports whether the engine may write notes.
func (h *hold) owns() bool { return h.Owner != "" }

// apply applies a note. It only moves the state forward, so a repeated note changes nothing.
func (r *Record) apply(n Note) {
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

// tryKept tries an append that changes the record, under the stream's lock.
func (e *Engine) tryKept(ctx context.Context, key Key, a *Append) (Appended, error) {
	now := e.now()
	if h := e.memory.hold(key); h != nil && now.Sub(h.sure) < believed && !h.expired(now) {
		plan, messages, err := e.prepare(&h.stream, a)
		if err == nil && plan.accepted { // only an accepted append is fenced by the record
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

// keep carries out a decision about a held stream: with a note if that is possible, otherwise with
// a write of the record.
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
	if a.Close || !h.owns() { // no notes will follow this record
		plan.next.giveUp()
	}
	done, err := e.carryOut(ctx, &h.stream, a, plan, messages)
	if err == nil {
		h.noted, h.upTo = 0, h.revision
	}
	return done, e.lost(h, err)
}

// lost enters the result of a write, and returns it. After a conflict the hold has to be read
// again; the stored record names the owner. After any other error it is dropped, because the write
// may still be stored.
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

// note stores an append's event with its change of the record as a note.
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
	h.apply(n)
	h.noted++
	h.upTo = max(h.upTo, done.Next)
	return done, nil
}

// grip reads a stream's record and the notes since, and returns the hold. If another engine owns
// the record, it takes over. Codes: NotFound; StreamGone.
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

// takeOver makes the engine the owner in place of another one, and reads the notes of that owner.
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
			h.apply(n)
			h.noted++
		}
		h.upTo = last
	}
}

// own makes the engine the owner of a stream's record. The record then includes the notes up to
// h.upTo.
func (e *Engine) own(ctx context.Context, h *hold) error {
	return e.write(ctx, h, rand.Text(), h.upTo)
}

// write writes a stream's record with an owner, "" for none, and the sequence up to which it
// includes notes.
func (e *Engine) write(ctx context.Context, h *hold, owner string, base uint64) error {
	next := h.Record
	next.Owner, next.OwnedAt, next.Base = owner, e.now().UTC(), base
	if owner == "" {
		next.giveUp()
	}
	_, err := e.record(ctx, &h.stream, next, nil)
	return err
}

// Run writes the records that this engine owns, and releases idle ones, until ctx ends. Then it
// releases all. Without Run, records are written less often.
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

// tend writes a stream's record if there are notes. If the stream was not used since the last
// check, or this is the last call, it releases the record.
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

// checkpoint writes the record of an owned stream, and keeps it.
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

// release writes the record of an owned stream without an owner, and drops the hold.
func (e *Engine) release(ctx context.Context, h *hold) error {
	h, err := e.sure(ctx, h)
	if isLost(err) {
		return nil // the stream is deleted; grip has dropped the hold
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

// sure returns the hold, read again if its record may not be the stored one.
func (e *Engine) sure(ctx context.Context, h *hold) (*hold, error) {
	if !h.sure.IsZero() {
		return h, nil
	}
	return e.grip(ctx, h.key)
}

// giveUp removes the owner from a record that includes all notes.
func (r *Record) giveUp() { r.Owner, r.OwnedAt, r.Base = "", time.Time{}, 0 }

// abandoned reports whether the owner has not written the record for so long that it seems to have
// died.
func (r *Record) abandoned(now time.Time) bool {
	return r.Owner != "" && now.Sub(r.OwnedAt) > ownerless
}

// rescue completes and releases an abandoned record, before its notes leave the log.
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
