package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Wish is what somebody wants to see.
type Wish struct {
	Namespace  string
	Pattern    sluice.Pattern // "/**" if empty
	Filter     sluice.Filter
	Since      string // a cursor: what comes behind it; empty: what comes from now on
	Projection Projection
	Coalesce   Coalesce
	Buffer     int // frames that the reader may be behind; that of the ring if 0
	Caller     sluice.Caller
}

// Feed is an ordered view of a namespace from a place on, going on live.
type Feed struct {
	engine  *Engine
	wish    Wish
	filter  *filter.Matcher
	source  source
	queue   *queue
	held    *coalescer // nil: nothing is held back
	current uint64
	since   uint64
	leave   func()
}

// atOnce is how many frames are sent at a time.
const atOnce = 32

// patience is how long whoever opens a feed waits for it to be known who may do what.
const patience = 5 * time.Second

// Open subscribes, and then finds out where the log ends and where the feed begins (S2-124…129). Codes
// InvalidRequest; NotFound; Forbidden; WindowExceeded, with oldest_available_seq and current_seq;
// Unavailable. A feed is to be closed.
func (e *Engine) Open(ctx context.Context, w Wish) (*Feed, error) {
	w.Pattern = cmp.Or(w.Pattern, "/**")
	w.Buffer = cmp.Or(w.Buffer, min(e.opts.Ring, e.opts.MaxBuffer))
	if w.Buffer < 1 || w.Buffer > e.opts.MaxBuffer {
		return nil, sluice.Errorf(sluice.InvalidRequest, "buffer %d: use 1 to %d", w.Buffer, e.opts.MaxBuffer).With("field", "buffer")
	}
	matcher, err := filter.CompileWith(w.Filter, e.opts.Labels)
	if err != nil {
		return nil, err
	}
	f := &Feed{engine: e, wish: w, filter: matcher}
	if err := f.admitted(ctx); err != nil {
		return nil, err
	}
	hub, leave, err := e.enter(ctx, w.Namespace)
	if err != nil {
		return nil, err
	}
	f.leave = leave
	if err := f.place(ctx); err != nil {
		leave()
		return nil, err
	}
	f.source = source{log: e.log, ring: hub.ring, namespace: w.Namespace, pattern: w.Pattern, place: f.since}
	f.queue = newQueue(w.Buffer, f.since)
	if len(w.Coalesce.Labels) > 0 {
		f.held = &coalescer{
			wish: w.Coalesce, most: w.Buffer, groups: map[string]*Frame{},
			labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, e.opts.Labels) },
		}
	}
	e.feeds.Add(1)
	return f, nil
}

// place samples the cursor, and then resolves where the feed begins. A place behind the end is the end: the log
// may have lost what was there.
func (f *Feed) place(ctx context.Context) (err error) {
	if _, f.current, err = f.engine.log.Ends(ctx, f.wish.Namespace); err != nil {
		return err
	}
	f.since = f.current
	if f.wish.Since == "" || f.wish.Since == "now" {
		return nil
	}
	since, err := f.engine.log.Place(ctx, f.wish.Namespace, f.wish.Since)
	f.since = min(since, f.current)
	return err
}

// Close ends the feed. It is called when Run has returned, or is not called.
func (f *Feed) Close() {
	f.engine.feeds.Add(-1)
	f.leave()
}

// Current returns the sequence of the last event when the feed was opened: what was read up to there, and the feed
// from there on, are everything (S2-128, S2-129).
func (f *Feed) Current() uint64 { return f.current }

// Since returns behind which sequence the feed begins.
func (f *Feed) Since() uint64 { return f.since }

// Run sends frames in their order, several at once, until sending fails, ctx ends, or the feed does: it returns
// why. Frames are good until the next call. What is held back is sent before the end. Hurry is called once when the feed
// is over: a call of send that is under way is to end soon, because its reader may have lost its access, or the server ends.
func (f *Feed) Run(ctx context.Context, send func([]Frame) error, hurry func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		cancel(f.look(ctx))
		hurry()
	})
	err := f.write(ctx, send)
	cancel(err)
	looking.Wait()
	if err == nil {
		err = f.drain(send)
		err = cmp.Or(err, context.Cause(ctx))
	}
	return err
}

// look queues what is to be sent, and returns why it ends.
func (f *Feed) look(ctx context.Context) error {
	beat := time.NewTicker(f.engine.opts.Heartbeat)
	defer beat.Stop()
	_, changed := f.engine.gate.Applied()
	for ctx.Err() == nil {
		items, more, err := f.source.next(ctx)
		if err == nil {
			err = f.enter(ctx, items)
		}
		if err != nil {
			return err
		}
		if more == nil {
			continue
		}
		f.queue.reach(f.reached())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-more:
			continue
		case <-f.windowEnds():
			if err := f.flush(ctx); err != nil {
				return err
			}
			continue
		case <-changed:
			_, changed = f.engine.gate.Applied()
		case <-beat.C:
		}
		if err := f.allowed(time.Now()); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

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
	case sluice.Pass:
		return nil
	case sluice.Undecided:
		return undecided()
	case sluice.Withhold, sluice.Lost:
	}
	return sluice.Errorf(sluice.Forbidden, "you may not read anything of what this feed is about")
}

func undecided() error {
	return sluice.Errorf(sluice.Unavailable, "who may do what is not known at the moment; try again")
}

// enter queues what is wanted of the next items.
func (f *Feed) enter(ctx context.Context, items []*Item) error {
	now := time.Now()
	for _, it := range items {
		ok, err := f.wants(it, now)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if f.held == nil {
			err = f.put(ctx, Frame{item: it, Seq: it.Event.Seq, Resume: it.Event.Seq, Count: 1})
		} else {
			err = f.putAll(ctx, f.held.add(it, now))
		}
		if err != nil {
			return err
		}
	}
	if f.held != nil && !f.held.due.IsZero() && !now.Before(f.held.due) {
		return f.flush(ctx)
	}
	return nil
}

// wants reports whether an event is one for this feed: its path, its caller, its filter. One of which the filter
// cannot tell, because its expression fails, is not.
func (f *Feed) wants(it *Item, now time.Time) (bool, error) {
	if !f.wish.Pattern.Match(it.Event.Path) {
		return false, nil
	}
	if ok, err := f.shows(it, now); !ok {
		return false, err
	}
	ok, err := f.filter.Match(&it.Event)
	return ok && err == nil, nil
}

// shows asks the gate for an event. An error says that the feed is over.
func (f *Feed) shows(it *Item, now time.Time) (bool, error) {
	switch f.engine.gate.Shows(f.wish.Caller, sluice.VerbRead, &it.Event, now) {
	case sluice.Pass:
		return true, nil
	case sluice.Undecided:
		return false, undecided()
	case sluice.Lost:
		return false, f.allowed(now) // of this event, or of all
	case sluice.Withhold:
	}
	return false, nil
}

// put queues a frame. Where there is no room, it waits for it as long as that makes nobody miss anything.
func (f *Feed) put(ctx context.Context, frame Frame) error {
	for f.queue.full() {
		var more <-chan struct{}
		if f.source.live {
			var behind int
			behind, more = f.source.ring.backlog(f.source.place)
			if behind > min(f.wish.Buffer, f.source.ring.size()/2) || !f.source.covered() {
				break
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.queue.room:
		case <-more:
		}
	}
	f.queue.push(frame)
	return nil
}

func (f *Feed) putAll(ctx context.Context, frames []Frame) error {
	for _, frame := range frames {
		if err := f.put(ctx, frame); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) flush(ctx context.Context) error { return f.putAll(ctx, f.held.flush()) }

// windowEnds returns what has something when it is time to flush; nil: nothing is held.
func (f *Feed) windowEnds() <-chan time.Time {
	if f.held == nil || f.held.due.IsZero() {
		return nil
	}
	return time.After(time.Until(f.held.due))
}

// reached returns up to where everything is queued, or was not wanted.
func (f *Feed) reached() uint64 {
	if f.held == nil {
		return f.source.place
	}
	return f.held.resume(f.source.place)
}

// write sends what is queued until ctx ends, which is no error.
func (f *Feed) write(ctx context.Context, send func([]Frame) error) error {
	var scratch [atOnce]Frame
	beat := time.NewTicker(f.engine.opts.Heartbeat)
	defer beat.Stop()
	for {
		idle := false
		select {
		case <-ctx.Done():
			return nil
		case <-f.queue.filled:
		case <-beat.C:
			idle = true
		}
		frames, looked := f.queue.take(scratch[:0], f.source.ring.last)
		if idle && len(frames) == 0 {
			frames = append(frames, Frame{Idle: true, Resume: looked})
		}
		if err := f.send(frames, send); err != nil {
			return err
		}
		if len(frames) > 0 && !idle {
			beat.Reset(f.engine.opts.Heartbeat)
		}
	}
}

// send sends frames that may still be sent.
func (f *Feed) send(frames []Frame, send func([]Frame) error) error {
	now := time.Now()
	kept := frames[:0]
	for _, frame := range frames {
		if frame.item != nil {
			ok, err := f.shows(frame.item, now)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
		}
		if frame.Lagged != nil {
			f.engine.lagged.Add(uint64(frame.Lagged.Missed)) //nolint:gosec // a count
		}
		kept = append(kept, frame)
	}
	if len(kept) == 0 {
		return nil
	}
	return send(kept)
}

// drain sends what is left when nothing comes any more.
func (f *Feed) drain(send func([]Frame) error) error {
	if f.held != nil {
		for _, frame := range f.held.flush() {
			f.queue.push(frame)
		}
	}
	var scratch [atOnce]Frame
	for {
		frames, _ := f.queue.take(scratch[:0], f.source.ring.last)
		if len(frames) == 0 {
			return nil
		}
		if err := f.send(frames, send); err != nil {
			return err
		}
	}
}

// AppendFrame appends a frame as JSON on one line.
func (f *Feed) AppendFrame(b []byte, frame Frame) []byte {
	switch {
	case frame.Lagged != nil:
		text, err := json.Marshal(map[string]*Lagged{"lagged": frame.Lagged})
		if err != nil {
			return b // numbers have a form
		}
		return append(b, text...)
	case frame.Idle:
		return append(strconv.AppendUint(append(b, `{"heartbeat":{"seq":`...), frame.Resume, 10), "}}"...)
	case frame.Count == 1 && frame.Resume == frame.Seq:
		return append(b, f.engine.draw.frame(frame.item, f.wish.Projection)...)
	}
	b = append(appendHead(b, frame.Seq), f.engine.draw.event(frame.item, f.wish.Projection)...)
	if frame.Count > 1 {
		b = strconv.AppendInt(append(b, `,"coalesced":`...), int64(frame.Count), 10)
	}
	if frame.Resume != frame.Seq {
		b = strconv.AppendUint(append(b, `,"resume":`...), frame.Resume, 10)
	}
	return append(b, '}')
}
