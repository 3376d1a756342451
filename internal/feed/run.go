package feed

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// atOnce limits the frames that are sent at a time, and atOnceWeight their size in bytes. They are
// limited because the feed asks the gate about all of them first, and sending may take long.
const (
	atOnce       = 32
	atOnceWeight = 128 << 10
)

// Run sends frames in order, several at once, until send fails, ctx ends, or the feed ends. It
// returns the reason. The frames passed to send are valid until send returns. If ctx ends, or the
// hub ends the feed, Run still sends the remaining frames. When the feed is over, it calls hurry
// once: a call of send that is in progress then has to end soon, because the reader may have lost
// its access, or the server is stopping.
func (f *Feed) Run(ctx context.Context, send func([]Frame) error, hurry func()) error {
	ctx, f.end = context.WithCancelCause(ctx)
	hurried := make(chan struct{})
	context.AfterFunc(ctx, func() {
		hurry()
		close(hurried)
	})
	detach := f.hub.attach(f)
	err := f.allowed(time.Now()) // access may have been lost before guard knew this feed
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

// serve sends frames until ctx ends, which is not an error.
func (f *Feed) serve(ctx context.Context, send func([]Frame) error) error {
	beat := time.Now().Add(f.engine.opts.Heartbeat)
	alarm := time.NewTimer(f.engine.opts.Heartbeat)
	defer alarm.Stop()
	for ctx.Err() == nil {
		f.rest(ctx)
		sent, more, err := f.step(ctx, send)
		due, reached, queued := f.waitsFor()
		// With queued frames, a heartbeat waits: a reader that resumed behind it would miss them.
		if now := time.Now(); err == nil && !sent && !queued && !now.Before(beat) {
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
		if more != nil && !queued {
			alarm.Reset(time.Until(due))
			await(ctx, more, alarm.C)
		}
	}
	return nil
}

// await waits until one of the channels is ready or ctx ends.
func await(ctx context.Context, more <-chan struct{}, alarm <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-more:
	case <-alarm:
	}
}

// waitsFor returns when the window of held events ends, zero if none are held, the position up to
// which everything was sent or queued, and whether frames are queued: when step finds none, the hub
// may queue some right after it.
func (f *Feed) waitsFor() (due time.Time, reached uint64, queued bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		due = f.held.due
	}
	return due, f.reached(), f.queue.count > 0
}

// step sends the next frames, if there are any. Otherwise more is as that of next.
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

// next returns the next frames, including those about lost events. If there are none, it returns a
// channel that is closed when there are. If it returns no channel, call next again.
func (f *Feed) next(ctx context.Context, piece []Frame) (frames []Frame, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if frames, more, err = f.events(ctx, piece); err != nil {
		return nil, nil, err
	}
	return f.withGaps(frames), more, nil
}

// events returns the next frames with events: first queued ones that may still be sent, then new
// ones. If there are none, it returns a channel that is closed when there are. If it returns no
// channel, call events again.
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
		return f.now, nil, nil // if there was an error, the next call meets it again
	}
	return nil, more, err
}

// again asks the gate again about the frames in f.now, whose events may have been held back for
// long.
func (f *Feed) again() error {
	kept, err := f.still(f.now)
	f.now = kept
	return err
}

// trim makes the queue evict the oldest frames if the reader is further behind than its limit.
func (f *Feed) trim() error {
	n, last := f.hub.ring().Backlog(f.place, atOnce)
	if n+f.queue.count <= f.wish.Buffer+atOnce {
		return nil
	}
	return f.lookAhead(last)
}

// still returns those of the frames that may still be sent. It reuses the slice.
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

// drainMost limits how long a feed that ends looks at the remaining events, because the server
// waits for it.
const drainMost = time.Second

// drain sends the remaining frames that are in memory when the feed ends. It cannot read the log,
// because ctx has ended.
func (f *Feed) drain(ctx context.Context, send func([]Frame) error) {
	f.mu.Lock()
	f.until = time.Now().Add(drainMost)
	f.mu.Unlock()
	for until := f.hub.ring().Last(); f.isLeft(until); {
		if _, _, err := f.step(ctx, send); err != nil {
			return // the feed ends for another reason anyway
		}
	}
}

// isLeft reports whether there is something to send up to a sequence. At that sequence it releases
// the frames that are held back.
func (f *Feed) isLeft(until uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil && f.place >= until {
		f.putAll(f.held.flush())
	}
	return f.place < until && !f.isLate() && f.owes == 0 || f.queue.count > 0
}

// patience limits how long Open waits for permissions to load.
const patience = 5 * time.Second

// admitted is allowed for Open: if permissions have not loaded yet, it waits for them.
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
		return false, f.allowed(now) // an error only if the caller lost access to everything
	case model.Withhold:
	}
	return false, nil
}
