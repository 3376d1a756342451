package wake_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Clocks and limits as S1 writes them; the code has its own.
const (
	silence     = 45 * time.Second
	patience    = 72 * time.Hour
	longestWait = 65 * time.Second
	idling      = "IDLE"
	wakening    = "WAKING"
	living      = "LIVE"
	removed     = "REMOVED"
)

// life is a consumer as the specification sees it. It knows nothing of how one is stored but what of reads.
type life struct {
	state  string
	epoch  uint64
	wakeID string
	acked  map[sluice.Path]uint64
	absent map[sluice.Path]bool // deleted already when they were subscribed to
	ends   time.Time            // live: when the silence will have been too long
}

func of(c *wake.Consumer) life {
	l := life{epoch: c.Epoch, wakeID: c.WakeID, acked: map[sluice.Path]uint64{}, absent: map[sluice.Path]bool{}}
	l.state = map[sluice.WakeState]string{
		sluice.WakeIdle: idling, sluice.WakeWaking: wakening, sluice.WakeLive: living, sluice.WakeRemoved: removed,
	}[c.State]
	for _, p := range c.Streams {
		if l.state == removed {
			break // what is left says where one goes on that comes back
		}
		l.acked[p.Path] = p.Acked
		if p.Await {
			l.absent[p.Path] = true
		}
	}
	if l.state == living {
		l.ends = c.Due
	}
	return l
}

func (l life) String() string {
	return fmt.Sprintf("%s epoch %d wake %q acked %v absent %v ends %s", l.state, l.epoch, l.wakeID, l.acked, l.absent, l.ends.Format(time.TimeOnly))
}

func (l life) equal(o life) bool {
	return l.state == o.state && l.epoch == o.epoch && l.wakeID == o.wakeID && l.ends.Equal(o.ends) &&
		maps.Equal(l.acked, o.acked) && maps.Equal(l.absent, o.absent)
}

// fresh stands for a wake id that was not seen yet.
const fresh = "*"

// pending is S1's pending_work.
func (l life) pending(tails wake.Tails) bool {
	for path, acked := range l.acked {
		t := tails[path]
		if !t.Gone && t.Seq > t.Start && t.Seq > acked {
			return true
		}
	}
	return false
}

// reference says what S1 allows to become of a consumer: written from its text, its table of transitions and
// the settled ambiguities, not from the code that it judges.
type reference struct {
	before wake.Consumer
	in     wake.Input
	now    time.Time
}

// outcome is what is allowed: a life, and how a caller is answered.
type outcome struct {
	life
	code sluice.Code
}

func (r *reference) outcomes() []outcome {
	l := of(&r.before)
	if l.state == removed || r.orphan() {
		o := outcome{life: life{state: removed, epoch: l.epoch, acked: map[sluice.Path]uint64{}, absent: map[sluice.Path]bool{}}}
		if r.in.Callback != nil {
			o.code = sluice.WakeGone
		}
		return []outcome{o}
	}
	if r.in.Callback != nil {
		return []outcome{r.called(l)}
	}
	if r.in.Answer != nil {
		return r.answered(l)
	}
	if l.state == living && !r.now.Before(l.ends) {
		l = l.rested() // "45-second liveness timeout"
	}
	return []outcome{{life: r.settled(l)}}
}

// orphan: "Primary stream deleted → Consumer removed", also if there is another one by now.
func (r *reference) orphan() bool {
	t, known := r.in.Tails[r.before.Path]
	return known && (t.Gone || t.Start >= r.before.Since && t.Start != 0)
}

func (l life) rested() life {
	l.state, l.ends = idling, time.Time{}
	return l
}

// settled is what every step ends with: deleted streams are dropped (C29), nothing to follow is the end, and an
// idle consumer with pending work is woken: "epoch++, new wake_id".
func (r *reference) settled(l life) life {
	for path := range l.acked {
		t, known := r.in.Tails[path]
		if t.Gone && !l.absent[path] {
			delete(l.acked, path)
		}
		if known && !t.Gone {
			delete(l.absent, path)
		}
	}
	if len(l.acked) == 0 {
		return life{state: removed, epoch: l.epoch, acked: l.acked, absent: map[sluice.Path]bool{}}
	}
	if l.state == idling && l.pending(r.in.Tails) {
		l.state, l.epoch, l.wakeID = wakening, l.epoch+1, fresh
	}
	return l
}

// answered: what came of a notice counts for its own wake only (b).
func (r *reference) answered(l life) []outcome {
	a := r.in.Answer
	switch {
	case a.WakeID != l.wakeID:
	case a.OK && a.Done: // "All streams are auto-acked", to what they were then (d); "Consumer transitions to IDLE"
		for path := range l.acked {
			l.acked[path] = max(l.acked[path], a.Sent[path].Seq)
		}
		l = l.rested()
	case a.OK && l.state == wakening:
		l.state, l.ends = living, r.now.Add(silence)
	case !a.OK && l.state == wakening && a.Number == r.before.Failures+1:
		return r.failed(l)
	}
	return []outcome{{life: r.settled(l)}}
}

// failed: "3 days continuous webhook failure → Consumer removed". Whether the last attempt within the three days or
// the first behind them ends it the text leaves open.
func (r *reference) failed(l life) []outcome {
	over := outcome{life: life{state: removed, epoch: l.epoch, acked: map[sluice.Path]uint64{}, absent: map[sluice.Path]bool{}}}
	goes := outcome{life: r.settled(l)}
	since := time.Duration(0)
	if !r.before.FailingSince.IsZero() {
		since = r.now.Sub(r.before.FailingSince)
	}
	switch {
	case since > patience:
		return []outcome{over}
	case since < patience-longestWait:
		return []outcome{goes}
	}
	return []outcome{over, goes}
}

// called: a callback is refused as a whole or done as a whole.
func (r *reference) called(l life) outcome {
	cb := r.in.Callback
	if code := r.verdict(l); code != "" {
		return outcome{life: of(&r.before), code: code}
	}
	for _, ack := range cb.Acks {
		if was, followed := l.acked[ack.Path]; followed && !r.in.Tails[ack.Path].Gone {
			l.acked[ack.Path] = max(was, min(ack.Acked, r.in.Tails[ack.Path].Seq))
		}
	}
	r.subscribed(l)
	for _, path := range cb.Unsubscribe {
		delete(l.acked, path)
		delete(l.absent, path)
	}
	claims := cb.WakeID != "" && l.state == wakening
	if claims || l.state == living {
		l.state, l.ends = living, r.now.Add(silence)
	}
	if cb.Done {
		l = l.rested()
	}
	return outcome{life: r.settled(l)}
}

// subscribed: "New subscriptions start at current tail". One that is not there yet is waited for.
func (r *reference) subscribed(l life) {
	for _, path := range r.in.Callback.Subscribe {
		_, followed := l.acked[path]
		t := r.in.Tails[path]
		if followed && (!t.Gone || l.absent[path]) { // else the one that was followed is no more
			continue
		}
		l.acked[path] = t.Seq
		if t.Gone {
			l.absent[path] = true
		}
	}
}

// verdict is S1's table of error responses.
func (r *reference) verdict(l life) sluice.Code {
	cb := r.in.Callback
	if l.wakeID == "" {
		return sluice.WakeGone // the caller was woken by another consumer, which is no more
	}
	if cb.Epoch != l.epoch {
		return sluice.WakeStale
	}
	if cb.WakeID != "" && cb.WakeID != l.wakeID {
		return sluice.WakeTaken
	}
	leaves := map[sluice.Path]bool{}
	for _, path := range cb.Unsubscribe {
		leaves[path] = true
	}
	for _, ack := range cb.Acks {
		was, followed := l.acked[ack.Path]
		t := r.in.Tails[ack.Path]
		if t.Gone || !followed && leaves[ack.Path] {
			continue
		}
		erased := t.Seq <= max(was, t.Start) && ack.Acked <= r.in.End // or aged out: what a worker has read may be no more
		if !followed || ack.Acked > max(t.Seq, was) && !erased {
			return sluice.WakeOffset
		}
	}
	return ""
}

// judge compares what became of a consumer with what is allowed.
func (r *reference) judge(after *wake.Consumer, err error) error {
	got := outcome{life: of(after), code: codeOf(err)}
	allowed := r.outcomes()
	for _, o := range allowed {
		if o.wakeID == fresh && got.wakeID != r.before.WakeID && got.wakeID != "" {
			o.wakeID = got.wakeID
		}
		if o.code == got.code && o.equal(got.life) {
			return nil
		}
	}
	return fmt.Errorf("%s became %s (%s); allowed is %v", of(&r.before), got.life, got.code, allowed)
}
