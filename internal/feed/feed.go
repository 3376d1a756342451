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
	hub     *hub
	wish    Wish
	filter  *filter.Matcher
	current uint64
	since   uint64
	begins  int // how often that was gone before it was read
	leave   func()
	release func()
	budget  budget
	end     context.CancelCauseFunc // of Run

	mu    sync.Mutex // of who looks
	place uint64     // everything up to it was looked at
	page  []*Item    // of the log, behind the place: not looked at yet
	read  uint64     // what of the log is in the page, or was not wanted
	held  *coalescer // nil: nothing is held back
	now   []Frame    // what is sent next, while the reader waits for it; without capacity: it does not
	load  int        // its weight
	queue queue      // what is sent then
	until time.Time  // for which looking may take; zero: as long as it takes
	dear  bool       // it took longer when the hub looked: that does so no more until the reader takes something
}

// Open subscribes, and then finds out where the log ends and where the feed begins (S2-124…129). Codes
// InvalidRequest; NotFound; Forbidden; WindowExceeded, with oldest_available_seq and current_seq; QuotaExceeded if there are as many
// feeds as there may be; Unavailable. A feed is to be closed.
func (e *Engine) Open(ctx context.Context, w Wish) (*Feed, error) {
	w.Pattern = cmp.Or(w.Pattern, "/**")
	w.Buffer = cmp.Or(w.Buffer, min(e.opts.Ring, e.opts.MaxBuffer))
	if w.Buffer < 1 || w.Buffer > e.opts.MaxBuffer {
		return nil, sluice.Errorf(sluice.InvalidRequest, "buffer %d: use 1 to %d", w.Buffer, e.opts.MaxBuffer).With("field", "buffer")
	}
	matcher, err := filter.CompileLive(w.Filter, e.opts.Labels)
	if err != nil {
		return nil, err
	}
	f := &Feed{engine: e, wish: w, filter: matcher, queue: queue{most: w.Buffer}}
	if err := f.admitted(ctx); err != nil {
		return nil, err
	}
	if f.release, err = e.admit(w.Caller); err != nil {
		return nil, err
	}
	if f.hub, f.leave, err = e.enter(ctx, w.Namespace); err != nil {
		f.release()
		return nil, err
	}
	if err := f.begin(ctx); err != nil {
		f.leave()
		f.release()
		return nil, err
	}
	if len(w.Coalesce.Labels) > 0 {
		f.held = &coalescer{
			wish: w.Coalesce, most: w.Buffer, groups: map[string]*Frame{},
			labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, e.opts.Labels) },
		}
	}
	return f, nil
}

// begin samples the cursor, and then resolves where the feed begins. A place behind the end is the end: the log
// may have lost what was there.
func (f *Feed) begin(ctx context.Context) (err error) {
	if _, f.current, err = f.engine.log.Ends(ctx, f.wish.Namespace); err != nil {
		return err
	}
	f.since = f.current
	if f.wish.Since != "" && f.wish.Since != "now" {
		since, err := f.engine.log.Place(ctx, f.wish.Namespace, f.wish.Since)
		if err != nil {
			return err
		}
		f.since = min(since, f.current)
	}
	f.place = f.since
	return nil
}

// Close ends the feed. It is called when Run has returned, or is not called.
func (f *Feed) Close() {
	f.leave()
	f.release()
}

// Current returns the sequence of the last event when the feed was opened: what was read up to there, and the feed
// from there on, are everything (S2-128, S2-129).
func (f *Feed) Current() uint64 { return f.current }

// Since returns behind which sequence the feed begins.
func (f *Feed) Since() uint64 { return f.since }

// Rendered returns a frame as JSON on one line if that is what every feed of its projection sends, which all share and nobody
// changes: whoever waits to send it need not hold it a second time. It is nil for other frames.
func (f *Feed) Rendered(frame Frame) []byte {
	if frame.item == nil || frame.Count != 1 || frame.Resume != frame.Seq {
		return nil
	}
	return f.engine.draw.frame(frame.item, f.wish.Projection)
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
