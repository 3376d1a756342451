package wake_test

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/testkit/waketest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// request is a notice at the endpoint.
type request struct {
	path   sluice.Path
	wakeID string
	number int
	sent   wake.Tails
	at     time.Time
	answer *wake.Answer
}

// worker is who was woken: it knows what its notice said, and calls back as it likes.
type worker struct {
	path   sluice.Path
	of     string
	life   string
	epoch  uint64
	wakeID string
}

// letter is a callback on its way.
type letter struct {
	*worker
	callback wake.Callback
	forged   bool
}

// receive takes a notice in. One that was decided on before the lease went elsewhere may be late.
func (w *world) receive(c *wake.Consumer, sent wake.Tails, late bool) *request { //nolint:revive // what happened, not what to do
	offsets := map[sluice.Path]uint64{}
	for _, p := range c.Streams {
		if p.Path == c.Path { // others may be deleted, and begin anew
			offsets[p.Path] = p.Acked
		}
	}
	if err := w.witness.Notice(&waketest.Notice{
		Consumer: string(c.Path), Life: birth(c.Of, c.Since), Epoch: c.Epoch, WakeID: c.WakeID, Offsets: offsets, Overtook: late,
	}); err != nil {
		w.wrong(err)
	}
	w.tell("notice", "%s epoch %d wake %s attempt %d", c.Path, c.Epoch, c.WakeID, c.Failures+1)
	if late {
		w.seen["notice without the lease"]++
	}
	q := &request{path: c.Path, wakeID: c.WakeID, number: c.Failures + 1, sent: sent, at: w.now}
	if w.calm {
		q.answer = &wake.Answer{OK: true, Done: true}
		return q
	}
	w.requests = append(w.requests, q)
	w.workers = append(w.workers, &worker{path: c.Path, of: c.Of, life: birth(c.Of, c.Since), epoch: c.Epoch, wakeID: c.WakeID})
	w.workers = w.workers[max(0, len(w.workers)-12):]
	return q
}

// reply answers a request, one way or the other, or later, or never.
func (w *world) reply() {
	if len(w.requests) == 0 {
		return
	}
	at := w.random.IntN(len(w.requests))
	q := w.requests[at]
	w.requests = slices.Delete(w.requests, at, at+1)
	n := w.random.IntN(6)
	if w.deaf {
		n = 3 + n/2
	}
	switch n {
	case 0, 1:
		q.answer = &wake.Answer{OK: true}
	case 2:
		q.answer = &wake.Answer{OK: true, Done: true}
	case 3, 4:
		q.answer = &wake.Answer{Error: "status 500"}
	default:
		w.tell("hang", "attempt %d of %s", q.number, q.wakeID)
		return
	}
	if age := w.now.Sub(q.at); age >= 10*time.Second {
		w.seen["late answer"]++
	}
	w.tell("answer", "attempt %d of %s: %+v", q.number, q.wakeID, *q.answer)
}

// write has a worker write a callback, valid or not.
func (w *world) write() {
	if len(w.workers) == 0 || w.deaf {
		return
	}
	k := pick(w, w.workers)
	if w.chance(2) { // mostly those that were woken last
		k = w.workers[len(w.workers)-1]
	}
	cb := wake.Callback{Epoch: k.epoch, WakeID: k.wakeID, Done: w.chance(3)}
	if w.chance(2) {
		cb.WakeID = ""
	}
	for range w.random.IntN(3) {
		cb.Acks = append(cb.Acks, w.acknowledgement(k.path))
	}
	if w.chance(4) {
		cb.Subscribe = append(cb.Subscribe, pick(w, everywhere()), pick(w, secondaries()))
	}
	if w.chance(6) {
		cb.Unsubscribe = append(cb.Unsubscribe, pick(w, secondaries()))
	}
	if w.chance(80) {
		cb.Unsubscribe = append(cb.Unsubscribe, pick(w, everywhere()))
	}
	if w.chance(300) {
		cb.Unsubscribe = everywhere()
	}
	forged := w.forge(&cb)
	w.letters = append(w.letters, &letter{k, cb, forged})
	w.letters = w.letters[max(0, len(w.letters)-8):]
}

// acknowledgement is mostly of what there is, of the consumer's own stream.
func (w *world) acknowledgement(own sluice.Path) wake.Position {
	path := own
	if w.chance(3) {
		path = pick(w, everywhere())
	}
	s := w.streams[path]
	switch {
	case w.chance(12):
		return acked(path, w.seq+1+w.random.Uint64N(3)) // beyond the end
	case s.erased > 0 && w.chance(3):
		return acked(path, s.erased)
	case w.chance(2) || len(s.messages) == 0:
		return acked(path, s.tail().Seq)
	}
	return acked(path, pick(w, s.messages))
}

// forge makes some callbacks ones that no worker could write by the notices it got.
func (w *world) forge(cb *wake.Callback) bool {
	switch w.random.IntN(24) {
	case 0:
		cb.WakeID = "forged"
	case 1:
		cb.Epoch, cb.WakeID = cb.Epoch+1, "forged"
	case 2:
		cb.Epoch, cb.WakeID = cb.Epoch+7, "forged"
	default:
		return false
	}
	return true
}

// deliver hands a callback to a replica: any callback, so they overtake one another; some come twice.
func (w *world) deliver() {
	if len(w.letters) == 0 {
		return
	}
	at := w.random.IntN(len(w.letters))
	l := w.letters[at]
	r := pick(w, w.replicas[:])
	if !r.alive || r.busy() {
		return
	}
	if !w.chance(4) {
		w.letters = slices.Delete(w.letters, at, at+1)
	}
	c, _ := w.get(l.path)
	back := &waketest.Reply{
		Consumer: string(l.path), Epoch: l.callback.Epoch, WakeID: l.callback.WakeID, Forged: l.forged,
		Dead: !w.concerned(l.path) || w.current(l.path) != l.life, Outdated: c.Epoch,
	}
	named := append(append([]sluice.Path{}, l.callback.Subscribe...), l.callback.Unsubscribe...)
	for _, a := range l.callback.Acks {
		named = append(named, a.Path)
	}
	cb := l.callback
	then := func(_ *wake.Consumer, code sluice.Code) {
		if back.Code = code; code == "" {
			w.seen["callback succeeds"]++
		}
		w.tell("callback is answered", "%s with %q", l.path, code)
		w.seen["callback: "+string(code)]++
		if err := w.witness.Reply(back); err != nil {
			w.wrong(err)
		}
	}
	w.tell("callback", "replica %d: %s %+v", r.id, l.path, cb)
	if incarnation(w.sub) != l.of { // its token is of another incarnation
		then(nil, sluice.WakeGone)
		return
	}
	r.begin(r.change(l.path, wake.Input{Callback: &cb}, named, then))
}
