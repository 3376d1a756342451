package wake

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Input is an event that a consumer handles. At most one of Answer and Callback is set; with
// neither, Step checks the deadline and the streams.
type Input struct {
	Tails    Tails  // of Consumer.Paths and of all streams in the callback; read after the consumer's record
	End      uint64 // the last sequence of the log; 0: unknown, if the callback has no offset beyond Tails
	Answer   *Answer
	Callback *Callback

	Instead *Consumer // Step is called with it: the consumer that begins with this input, or is moved back
}

// Answer is the outcome of one attempt to notify.
type Answer struct {
	WakeID string
	Number int // of the attempt, from 1
	OK     bool
	Done   bool   // with OK: the response said {"done": true} (S1-55)
	Sent   Tails  // with Done: the streams when the notice was sent (register C26)
	Error  string // unless OK
}

// Callback is an authorised request of a consumer (S1-71).
type Callback struct {
	Epoch       uint64
	WakeID      string
	Acks        []Position
	Subscribe   []sluice.Path
	Unsubscribe []sluice.Path
	Done        bool
}

// Rules are parameters of Step that S1 does not fix.
type Rules struct {
	Retry     sluice.Retry
	NewWakeID func() string
	Random    func() float64 // in [0, 1), for jitter
}

// Step returns a consumer's next state. Store the result before any action. If the consumer is
// waking then, send its notice when it is due; a removed consumer does not exist any more. An error
// is the answer to a callback; it leaves the state unchanged, unless its code is WakeGone. Codes:
// WakeGone, WakeStale, WakeTaken, WakeOffset, WakeInvalid.
//
// Step is idempotent except for the times in the record.
func (r Rules) Step(c Consumer, in Input, now time.Time) (Consumer, error) {
	now = now.UTC().Round(0)
	next := c.clone()
	if next.State == sluice.WakeRemoved {
		return next, in.gone()
	}
	if next.orphaned(in.Tails) {
		next.orphan(in.Tails[next.Path])
		return next, in.gone()
	}
	switch {
	case in.Callback != nil:
		if err := r.call(&next, &in, now); err != nil {
			return c, err
		}
	case in.Answer != nil:
		r.answer(&next, in.Answer, in.Tails, now)
	default:
		r.tick(&next, now)
	}
	if next.drop(in.Tails); len(next.Streams) == 0 {
		next.leave(in.Tails)
	}
	if next.State == sluice.WakeIdle && len(next.Pending(in.Tails)) > 0 {
		r.wake(&next, now)
	}
	return next, nil
}

func (in *Input) gone() error {
	if in.Callback == nil {
		return nil
	}
	return gone()
}

func gone() error { return sluice.Errorf(sluice.WakeGone, "the consumer no longer exists") }

// wake begins a cycle (S1-28, S1-33). All its attempts have one wake id (S1-129).
func (r Rules) wake(c *Consumer, now time.Time) {
	c.State, c.WakeID = sluice.WakeWaking, r.NewWakeID()
	c.Epoch++
	c.Failures, c.FailingSince, c.LastError = 0, time.Time{}, ""
	c.Due, c.Woken = now, now
}

// idle ends a cycle.
func (c *Consumer) idle() {
	c.State, c.Due = sluice.WakeIdle, time.Time{}
	c.calm()
}

// live marks the wake as claimed (S1-29). The worker keeps it until it is silent for LiveFor.
func (c *Consumer) live(now time.Time) {
	c.State, c.Due = sluice.WakeLive, now.Add(LiveFor)
	c.calm()
}

func (c *Consumer) calm() { c.Failures, c.FailingSince, c.LastError = 0, time.Time{}, "" }

// remove ends the consumer. The record that remains keeps the epoch, which a successor continues
// (S1-128), and the sequence behind which a message creates that successor.
func (c *Consumer) remove(since, acked uint64) {
	*c = Consumer{Path: c.Path, Of: c.Of, Since: since, State: sluice.WakeRemoved, Epoch: c.Epoch, Streams: []Position{{Path: c.Path, Acked: acked}}}
}

// orphan ends a consumer whose stream was deleted. The first message of the next stream on the path
// brings it back.
func (c *Consumer) orphan(t Tail) {
	since := max(c.Since, t.Start)
	if t.Gone {
		since = max(since, t.Seq)
	}
	c.remove(since, t.Start)
}

// leave ends a consumer that follows no stream any more (S1-101).
func (c *Consumer) leave(tails Tails) {
	end := tails[c.Path].Seq
	c.remove(max(c.Since, end), end)
}

// acked returns the acknowledged position in a stream, 0 if the consumer does not follow it.
func (c *Consumer) acked(path sluice.Path) uint64 {
	if at := c.position(path); at >= 0 {
		return c.Streams[at].Acked
	}
	return 0
}

// tick ends the cycle of a consumer that has been silent for too long (S1-32).
func (Rules) tick(c *Consumer, now time.Time) {
	if c.State == sluice.WakeLive && (!now.Before(c.Due) || c.Due.Sub(now) > mostAhead) {
		c.idle()
	}
}

// answer applies the outcome of an attempt. It ignores an outcome of an earlier cycle (C26), and a
// second failure of the same attempt, whose successor may be in flight already (C27).
func (r Rules) answer(c *Consumer, a *Answer, tails Tails, now time.Time) {
	if a.WakeID != c.WakeID {
		return
	}
	switch {
	case a.Done:
		c.acknowledge(a.Sent)
		if c.State != sluice.WakeIdle {
			c.idle()
		}
	case a.OK:
		if c.State == sluice.WakeWaking {
			c.live(now)
		}
	case c.State == sluice.WakeWaking && a.Number == c.Failures+1:
		r.fail(c, a, tails, now)
	}
}

// fail applies a failed attempt. The last permitted one removes the consumer (S1-125).
func (r Rules) fail(c *Consumer, a *Answer, tails Tails, now time.Time) {
	if c.FailingSince.IsZero() {
		c.FailingSince = now
	}
	at, more := retry.Next(r.Retry, a.Number, c.FailingSince, now, r.Random())
	if !more { // the worker gets the missed messages with later ones
		c.remove(max(c.Since, tails[c.Path].Seq), c.acked(c.Path))
		return
	}
	c.Failures, c.Due, c.LastError = a.Number, at, a.Error
}

// acknowledge acknowledges all streams up to the tails that were sent (S1-57).
func (c *Consumer) acknowledge(sent Tails) {
	for i, p := range c.Streams {
		c.Streams[i].Acked = max(p.Acked, sent[p.Path].end())
	}
}

// call executes a callback completely or not at all (S1-80). If the consumer then follows no stream
// any more, Step removes it.
func (r Rules) call(c *Consumer, in *Input, now time.Time) error {
	if err := c.admit(in); err != nil {
		return err
	}
	cb := in.Callback
	for _, ack := range cb.Acks {
		if at, t := c.position(ack.Path), in.Tails[ack.Path]; at >= 0 && !t.Gone {
			c.Streams[at].Acked = max(c.Streams[at].Acked, min(ack.Acked, t.reach())) // positions never go back (S1-131)
		}
	}
	c.drop(in.Tails)
	c.subscribe(cb.Subscribe, in.Tails)
	c.unsubscribe(cb.Unsubscribe)
	if len(c.Streams) > MaxStreams {
		return sluice.Errorf(sluice.WakeInvalid, "subscribe: a consumer can follow at most %d streams", MaxStreams)
	}
	if c.State == sluice.WakeLive || c.State == sluice.WakeWaking && cb.WakeID != "" {
		c.live(now) // a claim needs the wake id (S1-39, S1-73); after it every callback counts (S1-42)
	}
	if cb.Done {
		c.idle()
	}
	return nil
}

// admit returns the error if a callback is refused.
func (c *Consumer) admit(in *Input) error {
	cb := in.Callback
	switch {
	case c.WakeID == "": // it was never woken: the caller's token is from its predecessor with the same epoch
		return gone()
	case cb.Epoch != c.Epoch:
		return sluice.Errorf(sluice.WakeStale, "the epoch is %d, not %d: stop", c.Epoch, cb.Epoch)
	case cb.WakeID != "" && cb.WakeID != c.WakeID:
		return sluice.Errorf(sluice.WakeTaken, "this is not the current wake: stop")
	}
	for _, ack := range cb.Acks {
		at := c.position(ack.Path)
		t := in.Tails[ack.Path]
		if t.Gone || at < 0 && slices.Contains(cb.Unsubscribe, ack.Path) {
			continue // the stream was deleted, or left by an earlier copy of this callback (S1-79)
		}
		if at < 0 {
			return sluice.Errorf(sluice.WakeOffset, "acks: %q is not a stream of this consumer", ack.Path)
		}
		if !t.valid(ack.Acked, c.Streams[at].Acked, in.End) {
			return sluice.Errorf(sluice.WakeOffset, "acks: the offset of %q was not issued by this server, or is beyond the end of the stream", ack.Path)
		}
	}
	return nil
}

// MaxStreams is how many streams a consumer may follow. It is limited because each notice lists all
// of them.
const MaxStreams = 1000

// subscribe adds streams at their present ends (S1-97). A stream that does not exist yet is read
// from its beginning (S1-98).
func (c *Consumer) subscribe(paths []sluice.Path, tails Tails) {
	for _, path := range paths {
		if !c.Follows(path) {
			c.Streams = append(c.Streams, Position{Path: path, Acked: tails[path].end(), Await: tails[path].Gone})
		}
	}
}

func (c *Consumer) unsubscribe(paths []sluice.Path) {
	for _, path := range paths {
		if at := c.position(path); at >= 0 {
			c.Streams = append(c.Streams[:at], c.Streams[at+1:]...)
		}
	}
}
