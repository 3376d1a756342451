package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// batch is how many items of the ring a feed looks at in one go.
const batch = 128

// look looks at the next events, as many as the reader can take at once: in the ring, or in the log
// if they have left the ring. If there are none, it returns a channel that is closed when there
// are. If it returns no channel, call look again. An error ends the feed.
func (f *Feed) look(ctx context.Context) (more <-chan struct{}, err error) {
	if len(f.page) == 0 {
		covered, more, err := f.lookRing(lastSeq)
		if covered || err != nil {
			return more, err
		}
		if err := f.turn(ctx); err != nil {
			return nil, err
		}
	}
	n, err := f.lookAt(f.page, lastSeq)
	if f.page = f.page[n:]; len(f.page) == 0 {
		f.page, f.place = nil, max(f.place, f.read)
	}
	return nil, err
}

// lookRing looks at the next events in the ring, up to a sequence, unless they have left it.
func (f *Feed) lookRing(upTo uint64) (covered bool, more <-chan struct{}, err error) {
	into := f.engine.batches.Get().(*[batch]*Item) //nolint:forcetypeassert // nothing else is in there
	defer func() { clear(into[:]); f.engine.batches.Put(into) }()
	t, err := f.hub.ring().Take(f.place, into[:0])
	if err != nil || !t.Covered {
		return t.Covered, nil, err
	}
	if len(t.Items) == 0 {
		return true, t.Changed, nil
	}
	_, err = f.lookAt(t.Items, upTo)
	return true, nil, err
}

// turn reads the next page of the log into f.page.
func (f *Feed) turn(ctx context.Context) error {
	items, reached, err := f.hub.behind(ctx, f.wish.Pattern, f.place)
	switch code := sluice.CodeOf(err); {
	case code == sluice.WindowExceeded && f.beginsAgain(ctx):
		return nil
	case code == sluice.WindowExceeded, code == sluice.NotFound:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the log cannot be read at the moment; reconnect after the last sequence"), err)
	}
	f.page, f.read = items, reached
	return nil
}

// beginsAgain moves the beginning of a feed that was to begin with the oldest event, has looked at
// nothing yet, and finds that event gone. It reports whether it did.
func (f *Feed) beginsAgain(ctx context.Context) bool {
	if f.wish.Since != beginning || f.place != f.since || f.begins == maxBegins {
		return false
	}
	f.begins++
	first, _, err := f.engine.log.Ends(ctx, f.wish.Namespace)
	if err != nil || first <= f.place+1 {
		return false
	}
	f.since, f.place = first-1, first-1
	return true
}

// beginning is the cursor of the oldest event.
const (
	beginning = "-1"
	maxBegins = 10
)

// lookAt looks at items up to a sequence. If the reader waits, it stops when the reader has as many
// frames as it can take at once. It returns the number of items that it looked at.
func (f *Feed) lookAt(items []*Item, upTo uint64) (int, error) {
	now, waits := time.Now(), f.waits()
	if f.held != nil && f.held.isOver(now) {
		f.putAll(f.held.flush())
	}
	for i, it := range items {
		if waits && !f.waits() || it.Event.Seq > upTo || f.isLate() {
			return i, nil
		}
		if it.Event.Seq <= f.place {
			continue // it was in the page and in the ring
		}
		ok, err := f.wants(it, now)
		if err != nil || f.owes > 0 {
			return i, err
		}
		switch {
		case !ok:
		case f.held == nil:
			f.put(Frame{item: it, Seq: it.Event.Seq, Resume: it.Event.Seq, Count: 1})
		default:
			f.putAll(f.held.add(it, now))
		}
		f.place = it.Event.Seq
	}
	return len(items), nil
}

// wants reports whether an event passes the feed's pattern, the gate and the filter. If it sets
// f.owes, the filter was not evaluated, and the result means nothing. An event on which the filter
// expression fails does not pass. An event on which it costs too much ends the feed
// (Unprocessable).
func (f *Feed) wants(it *Item, now time.Time) (bool, error) {
	if !f.wish.Pattern.Match(it.Event.Path) {
		return false, nil
	}
	if ok, err := f.shows(it, now); !ok {
		return false, err
	}
	ok, wait, err := f.engine.opts.Filters.Try(f.payer, f.filter, &it.Event, &it.parsed)
	f.owes = wait
	if sluice.CodeOf(err) == sluice.Unprocessable {
		return false, err
	}
	return ok && err == nil, nil
}

// waits reports whether the reader waits for a frame, and can take one more at once.
func (f *Feed) waits() bool { return len(f.now) < cap(f.now) && f.load < atOnceWeight }

// put hands a frame to the reader if that waits, otherwise to the queue.
func (f *Feed) put(frame Frame) {
	if f.waits() {
		f.now = append(f.now, frame)
		f.load += frame.item.weight()
		return
	}
	f.queue.push(frame)
}

func (f *Feed) putAll(frames []Frame) {
	for _, frame := range frames {
		f.put(frame)
	}
}

// sweepMost limits how long the hub looks at events for one feed, because all feeds of the
// namespace wait for that. A feed with a more expensive filter reads the log when its reader
// returns.
const sweepMost = 50 * time.Millisecond

// sweep looks at everything up to a sequence for a feed whose reader is blocked. It skips a feed
// that is looking by itself.
func (f *Feed) sweep(upTo uint64) {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if f.dear {
		return
	}
	f.until = time.Now().Add(sweepMost)
	defer func() { f.until = time.Time{} }()
	if err := f.lookAhead(upTo); err != nil {
		f.end(err)
	}
	f.dear = f.isLate() || f.owes > 0
}

// isLate reports whether the deadline for looking at events has passed.
func (f *Feed) isLate() bool { return !f.until.IsZero() && time.Now().After(f.until) }

// lookAhead queues the ring's events up to a sequence. It does nothing while the feed is still
// before its end at opening: events from that history are not dropped for new ones, and the reader
// reads them from the log.
func (f *Feed) lookAhead(upTo uint64) error {
	for f.place < upTo && f.place >= f.current && !f.isLate() && f.owes == 0 {
		if covered, more, err := f.lookRing(upTo); !covered || more != nil || err != nil {
			return err
		}
	}
	return nil
}

// reached returns the sequence up to which every event was sent, was queued or is not wanted.
func (f *Feed) reached() uint64 {
	if f.held == nil {
		return f.place
	}
	return f.held.resume(f.place)
}
