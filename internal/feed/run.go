package feed

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// atOnce is how many frames are sent at a time: fewer if they are large, since the gate is asked for each before that, and
// sending them may take long.
const (
	atOnce       = 32
	atOnceWeight = 128 << 10
)

// Run sends frames in their order, several at once, until sending fails, ctx ends, or the feed does: it returns
// why. Frames are good until the next call. What is held back is sent before the end. Hurry is called once when the feed
// is over: a call of send that is under way is to end soon, because its reader may have lost its access, or the server ends.
func (f *Feed) Run(ctx context.Context, send func([]Frame) error, hurry func()) error {
	ctx, f.end = context.WithCancelCause(ctx)
	hurried := make(chan struct{})
	context.AfterFunc(ctx, func() {
		hurry()
		close(hurried)
	})
	detach := f.hub.attach(f)
	err := f.allowed(time.Now()) // it may have changed before anybody knew of this feed
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

// serve sends what comes until ctx ends, which is no error.
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

// await waits for one of several things.
func await(ctx context.Context, more <-chan struct{}, alarm <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-more:
	case <-alarm:
	}
}

// waitsFor returns when the feed has something to do even if nothing comes, and up to where everything was sent.
func (f *Feed) waitsFor() (due time.Time, reached uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		due = f.held.due
	}
	return due, f.reached()
}

// step sends what comes next, if there is something.
func (f *Feed) step(ctx context.Context, send func([]Frame) error) (sent bool, more <-chan struct{}, err error) {
	piece := f.engine.pieces.Get().(*[atOnce]Frame) //nolint:forcetypeassert // nothing else is in there
	defer func() { clear(piece[:]); f.engine.pieces.Put(piece) }()
	frames, more, err := f.next(ctx, piece[:0])
	if err != nil || len(frames) == 0 {
		return false, more, err
	}
	for i := range frames {
		if l := frames[i].Lagged; l != nil {
			f.engine.lagged.Add(uint64(l.Missed)) //nolint:gosec // a count
		}
	}
	return true, nil, send(frames)
}

// next returns what is to be sent next: what is queued, and may still be sent, before what comes. If there is
// nothing, it returns what is closed when there is; without that it is to be asked again.
func (f *Feed) next(ctx context.Context, piece []Frame) (frames []Frame, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
		return f.now, nil, nil // an error comes again
	}
	return nil, more, err
}

// again asks the gate again for what was held back, and may have been for long.
func (f *Feed) again() error {
	kept, err := f.still(f.now)
	f.now = kept
	return err
}

// trim has the oldest give way, if the reader is further behind than it may be, not counting what it is sent at once.
func (f *Feed) trim() error {
	n, last := f.hub.ring().Backlog(f.place, atOnce)
	if n+f.queue.count <= f.wish.Buffer+atOnce {
		return nil
	}
	return f.lookAhead(last)
}

// still returns those of some frames that may still be sent.
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

// drainMost is how long looking at what is left may take when a feed ends: the server waits for it.
const drainMost = time.Second

// drain sends what is left when nothing comes any more, as far as it can be sent: the log is not read any more, for which ctx
// has ended.
func (f *Feed) drain(ctx context.Context, send func([]Frame) error) {
	f.mu.Lock()
	f.until = time.Now().Add(drainMost)
	f.mu.Unlock()
	for until := f.hub.ring().Last(); f.isLeft(until); {
		if _, _, err := f.step(ctx, send); err != nil {
			return // why the feed is over is said already
		}
	}
}

// isLeft reports whether there is something to be sent up to a sequence. Nothing is held back any more then.
func (f *Feed) isLeft(until uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil && f.place >= until {
		f.putAll(f.held.flush())
	}
	return f.place < until && !f.isLate() || f.queue.count > 0
}

// patience is how long whoever opens a feed waits for it to be known who may do what.
const patience = 5 * time.Second

// admitted is allowed for who asks first, maybe before it is known who may do what.
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

// allowed returns an error if the caller may have nothing (any more) of what it asks for.
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

// shows asks the gate for an event. An error says that the feed is over.
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
