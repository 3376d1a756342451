package feed

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// atOnce is how many frames are sent at a time: fewer if they are large, because the gate is asked
// about each before, and sending them may take long.
const (
	atOnce       = 32
	atOnceWeight = 128 << 10
)

// Run sends frames in order, several at once, until sending fails, ctx ends, or the feed does: it
// returns the reason. Frames are valid until the next call. Held events are sent before the end.
// Run calls hurry once when the feed is over: a call of send in progress has to end soon, because
// its reader may have lost its access, or the server stops.
func (f *Feed) Run(ctx context.Context, send func([]Frame) error, hurry func()) error {
	ctx, f.end = context.WithCancelCause(ctx)
	hurried := make(chan struct{})
	context.AfterFunc(ctx, func() {
		hurry()
		close(hurried)
	})
	detach := f.hub.attach(f)
	err := f.allowed(time.Now()) // it may have changed before this feed was known
	if err == nil {
		err = f.serve(ctx, send)
	}
	detach()
	f.end(err)
	<-hurried
	if err != nil {
		return err
	}
	f.drain(ctx, send)
	return context.Cause(ctx)
}

// serve sends frames until ctx ends, which is no error.
func (f *Feed) serve(ctx context.Context, send func([]Frame) error) error {
	beat := time.Now().Add(f.engine.opts.Heartbeat)
	alarm := time.NewTimer(f.engine.opts.Heartbeat)
	defer alarm.Stop()
	for ctx.Err() == nil {
		f.rest(ctx)
		sent, more, err := f.step(ctx, send)
		due, reached := f.waitsFor()
		if now := time.Now(); err == nil && !sent && !now.Before(beat) {
			sent, err = true, send([]Frame{{Idle: true, Resume: reached}})
		}
		if err != nil {
			return err
		}
		if sent {
			beat = time.Now().Add(f.engine.opts.Heartbeat)
		}
		if due.IsZero() || due.After(beat) {
			due = beat
		}
		if more != nil {
			alarm.Reset(time.Until(due))
			await(ctx, more, alarm.C)
		}
	}
	return nil
}

// await waits for one of several channels.
func await(ctx context.Context, more <-chan struct{}, alarm <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-more:
	case <-alarm:
	}
}

// waitsFor returns when the feed is next due without new events, and the position up to which
// everything was sent.
func (f *Feed) waitsFor() (due time.Time, reached uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		due = f.held.due
	}
	return due, f.reached()
}

// step sends the next frames, if there are any.
func (f *Feed) step(ctx context.Context, send func([]Frame) error) (sent bool, more <-chan struct{}, err error) {
	piece := f.engine.pieces.Get().(*[atOnce]Frame) //nolint:forcetypeassert // nothing else is in there
	defer func() { clear(piece[:]); f.engine.pieces.Put(piece) }()
	frames, more, err := f.next(ctx, piece[:0])
	if err != nil || len(frames) == 0 {
		return false, more, err
	}
	for i := range frames {
		if l := frames[i].Lagged; l != nil && l.Unreadable == nil {
			f.engine.lagged.Add(uint64(l.Missed)) //nolint:gosec // a count
		}
	}
	return true, nil, send(frames)
}

// next returns the next frames, among them those about lost events. If there are none, it returns a
// channel that is closed when there are; without it, call next again.
func (f *Feed) next(ctx context.Context, piece []Frame) (frames []Frame, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if frames, more, err = f.events(ctx, piece); err != nil {
		return nil, nil, err
	}
	return f.withGaps(frames), more, nil
}

// events returns the next frames of events: queued ones that still may be sent, before new ones. If
// there are none, it returns a channel that is closed when there are; without it, call events again.
func (f *Feed) events(ctx context.Context, piece []Frame) (frames []Frame, more <-chan struct{}, err error) {
	f.dear = false
	if err := f.trim(); err != nil {
		return nil, nil, err
	}
	for f.queue.count > 0 {
		frames, err := f.still(f.queue.take(piece, f.hub.ring().Last()))
		if err != nil || len(frames) > 0 {
			return frames, nil, err
		}
	}
	f.now, f.load = piece, 0
	defer func() { f.now = nil }()
	more, err = f.look(ctx)
	if f.held != nil {
		if f.held.isOver(time.Now()) {
			f.putAll(f.held.flush())
		}
		if gone := f.again(); gone != nil {
			return nil, nil, gone
		}
	}
	if len(f.now) > 0 {
		return f.now, nil, nil // an error recurs
	}
	return nil, more, err
}

// again asks the gate again about held events, which may have been held for long.
func (f *Feed) again() error {
	kept, err := f.still(f.now)
	f.now = kept
	return err
}

// trim evicts the oldest frames beyond the reader's limit, not counting those being sent.
func (f *Feed) trim() error {
	n, last := f.hub.ring().Backlog(f.place, atOnce)
	if n+f.queue.count <= f.wish.Buffer+atOnce {
		return nil
	}
	return f.lookAhead(last)
}

// still returns those of some frames that still may be sent.
func (f *Feed) still(frames []Frame) ([]Frame, error) {
	now := time.Now()
	kept := frames[:0]
	for _, frame := range frames {
		if frame.item != nil {
			ok, err := f.shows(frame.item, now)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		kept = append(kept, frame)
	}
	return kept, nil
}

// drainMost limits looking at the remaining events when a feed ends: the server waits for it.
const drainMost = time.Second

// drain sends the remaining frames at the end, as far as they can be sent: the log is not read any
// more, because ctx has ended.
func (f *Feed) drain(ctx context.Context, send func([]Frame) error) {
	f.mu.Lock()
	f.until = time.Now().Add(drainMost)
	f.mu.Unlock()
	for until := f.hub.ring().Last(); f.isLeft(until); {
		if _, _, err := f.step(ctx, send); err != nil {
			return // the reason of the end is known already
		}
	}
}

// isLeft reports whether there is something to send up to a sequence. Nothing is held back any more
// then.
func (f *Feed) isLeft(until uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil && f.place >= until {
		f.putAll(f.held.flush())
	}
	return f.place < until && !f.isLate() && f.owes == 0 || f.queue.count > 0
}

// patience is how long opening a feed waits for permissions to load.
const patience = 5 * time.Second

// admitted is allowed for the first check, when permissions may not have loaded yet.
func (f *Feed) admitted(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, changed := f.engine.gate.Applied()
		err := f.allowed(time.Now())
		if sluice.CodeOf(err) != sluice.Unavailable {
			return err
		}
		select {
		case <-changed:
		case <-limit.Done():
			return err
		}
	}
}

// allowed returns an error if the caller has lost access to everything it asked for.
func (f *Feed) allowed(now time.Time) error {
	w := &f.wish
	switch f.engine.gate.May(w.Caller, sluice.VerbRead, sluice.Object{Namespace: w.Namespace, Pattern: w.Pattern}, now) {
	case model.Pass:
		return nil
	case model.Undecided:
		return undecided()
	case model.Withhold, model.Lost:
	}
	return sluice.Errorf(sluice.Forbidden, "you may not read any event that this feed selects")
}

func undecided() error {
	return model.PermissionsUnknown()
}

// shows asks the gate about an event. An error ends the feed.
func (f *Feed) shows(it *Item, now time.Time) (bool, error) {
	switch f.engine.gate.Shows(f.wish.Caller, sluice.VerbRead, &it.Event, now) {
	case model.Pass:
		return true, nil
	case model.Undecided:
		return false, undecided()
	case model.Lost:
		return false, f.allowed(now) // of this event, or of all
	case model.Withhold:
	}
	return false, nil
}
