package wake

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Input is an event of a consumer. Exactly one of its parts is set; with none of them Step checks
// the clock and the streams.
type Input struct {
	Tails    Tails // of Consumer.Paths and of all streams in the callback, read after the consumer was
	Answer   *Answer
	Callback *Callback

	Born *Consumer // the consumer begins with this input: Step is given this one
}

// Answer is the outcome of one attempt to notify.
type Answer struct {
	WakeID string
	Number int // of the attempt, from 1
	OK     bool
	Done   bool   // with OK: the body said so (S1-55)
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

// Rules are Step's parameters besides S1.
type Rules struct {
	Retry     sluice.Retry
	NewWakeID func() string
	Random    func() float64 // from 0 up to 1, of jitter
}

// Step returns a consumer's next state. Store the result before any action: a consumer that is
// waking then has a notice sent when it is due, a removed one does not exist any more. An error is
// the answer to a callback; the state is unchanged then, unless it is WakeGone. Codes: WakeGone,
// WakeStale, WakeTaken, WakeOffset, WakeInvalid.
//
// Step is idempotent except for dates.
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
		if err := r.call(&next, in.Callback, in.Tails, now); err != nil {
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

// wake begins a cycle (S1-28, S1-33): one wake id for all its attempts (S1-129).
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

// live marks the wake as claimed (S1-29): the consumer has it until it falls silent.
func (c *Consumer) live(now time.Time) {
	c.State, c.Due = sluice.WakeLive, now.Add(LiveFor)
	c.calm()
}

func (c *Consumer) calm() { c.Failures, c.FailingSince, c.LastError = 0, time.Time{}, "" }

// remove ends the consumer. The remaining record keeps its epoch (S1-128), where a successor
// continues, and the sequence behind which a message brings it back.
func (c *Consumer) remove(since, acked uint64) {
	*c = Consumer{Path: c.Path, Of: c.Of, Since: since, State: sluice.WakeRemoved, Epoch: c.Epoch, Streams: []Position{{Path: c.Path, Acked: acked}}}
}

// orphan ends a consumer whose stream was deleted. The message that brings it back begins a stream.
func (c *Consumer) orphan(t Tail) {
	since := max(c.Since, t.Start)
	if t.Gone {
		since = max(since, t.Seq)
	}
	c.remove(since, t.Start)
}

// leave ends a consumer that follows nothing any more (S1-101).
func (c *Consumer) leave(tails Tails) {
	end := tails[c.Path].Seq
	c.remove(max(c.Since, end), end)
}

// acked returns the acknowledged position in a stream.
func (c *Consumer) acked(path sluice.Path) uint64 {
	if at := c.position(path); at >= 0 {
		return c.Streams[at].Acked
	}
	return 0
}

// tick handles a consumer that may have been silent for too long (S1-32).
func (Rules) tick(c *Consumer, now time.Time) {
	if c.State == sluice.WakeLive && (!now.Before(c.Due) || c.Due.Sub(now) > mostAhead) {
		c.idle()
	}
}

// answer enters the outcome of an attempt. One of an earlier cycle is ignored (C26), and so is a
// second failure of the same attempt: its successor is in flight then (C27).
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

// fail enters a failed attempt. The last permitted one removes the consumer (S1-125).
func (r Rules) fail(c *Consumer, a *Answer, tails Tails, now time.Time) {
	if c.FailingSince.IsZero() {
		c.FailingSince = now
	}
	at, more := retry.Next(r.Retry, a.Number, c.FailingSince, now, r.Random())
	if !more { // the missed messages come with later ones
		c.remove(max(c.Since, tails[c.Path].Seq), c.acked(c.Path))
		return
	}
	c.Failures, c.Due, c.LastError = a.Number, at, a.Error
}

// acknowledge takes all streams as processed up to the sent tails (S1-57).
func (c *Consumer) acknowledge(sent Tails) {
	for i, p := range c.Streams {
		c.Streams[i].Acked = max(p.Acked, sent[p.Path].end())
	}
}

// call executes a callback, all of it or nothing (S1-80). Step removes a consumer that follows
// nothing any more.
func (r Rules) call(c *Consumer, in *Callback, tails Tails, now time.Time) error {
	if err := c.admit(in, tails); err != nil {
		return err
	}
	for _, ack := range in.Acks {
		if at := c.position(ack.Path); at >= 0 && !tails[ack.Path].Gone {
			c.Streams[at].Acked = max(c.Streams[at].Acked, ack.Acked) // never back (S1-131)
		}
	}
	c.drop(tails)
	c.subscribe(in.Subscribe, tails)
	c.unsubscribe(in.Unsubscribe)
	if len(c.Streams) > MaxStreams {
		return sluice.Errorf(sluice.WakeInvalid, "subscribe: a consumer can follow at most %d streams", MaxStreams)
	}
	if c.State == sluice.WakeLive || c.State == sluice.WakeWaking && in.WakeID != "" {
		c.live(now) // a claim needs the wake id (S1-39, S1-73); after it every callback counts (S1-42)
	}
	if in.Done {
		c.idle()
	}
	return nil
}

// admit returns why a callback is refused.
func (c *Consumer) admit(in *Callback, tails Tails) error {
	switch {
	case c.WakeID == "": // never woken: the caller was woken by its predecessor, of the same epoch
		return gone()
	case in.Epoch != c.Epoch:
		return sluice.Errorf(sluice.WakeStale, "the epoch is %d, not %d: stop", c.Epoch, in.Epoch)
	case in.WakeID != "" && in.WakeID != c.WakeID:
		return sluice.Errorf(sluice.WakeTaken, "this is not the current wake: stop")
	}
	for _, ack := range in.Acks {
		at := c.position(ack.Path)
		if tails[ack.Path].Gone || at < 0 && slices.Contains(in.Unsubscribe, ack.Path) {
			continue // it was dropped or left before: a repetition (S1-79), or too late to matter
		}
		if at < 0 {
			return sluice.Errorf(sluice.WakeOffset, "acks: %q is not a stream of this consumer", ack.Path)
		}
		if end := tails[ack.Path]; end.hidden() && ack.Acked > c.Streams[at].Acked || ack.Acked > max(end.Seq, c.Streams[at].Acked) {
			return sluice.Errorf(sluice.WakeOffset, "acks: the offset of %q was not issued by this server, or is beyond the end of the stream", ack.Path)
		}
	}
	return nil
}

// MaxStreams is how many streams a consumer may follow: each notice lists all of them.
const MaxStreams = 1000

// subscribe adds streams at their ends (S1-97); one that does not exist yet is read from its
// beginning (S1-98).
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
