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

// Wish is a request for a feed.
type Wish struct {
	Namespace  string
	Pattern    sluice.Pattern // "/**" if empty
	Filter     sluice.Filter
	Since      string // a cursor: events behind it; empty: events from now on
	Log        string // the incarnation of the log that Since is of; empty: the present one
	Projection Projection
	Coalesce   Coalesce
	Buffer     int // frames that the reader may be behind; 0: Options.MaxBuffer
	Caller     sluice.Caller
}

// Feed is an ordered view of a namespace from a position on, going on live.
type Feed struct {
	engine  *Engine
	hub     *hub
	wish    Wish
	filter  *filter.Matcher
	payer   filter.Payer // of its expression
	current uint64
	since   uint64
	told    []sluice.Gap // frames were sent for them; of the looking goroutine
	begins  int          // how often the beginning was gone before it was read
	leave   func()
	release func()
	budget  budget
	end     context.CancelCauseFunc // of Run

	mu    sync.Mutex    // of the looking goroutine
	place uint64        // everything up to it was looked at
	page  []*Item       // of the log, behind place: not looked at yet
	read  uint64        // up to here the log is in the page, or was not wanted
	held  *coalescer    // nil: no events are held back
	now   []Frame       // next frames, while the reader waits for them; without capacity: it does not
	load  int           // its weight
	queue queue         // frames to send after that
	until time.Time     // deadline of looking; zero: none
	owes  time.Duration // until the payer's costs are paid: the expression is not evaluated before
	dear  bool          // the hub ran out of time here and pauses until the reader takes a frame
}

// Open subscribes, and then determines the end of the log and the feed's beginning (S2-124…129).
// Codes InvalidRequest; NotFound; Forbidden; WindowExceeded, with oldest_available_seq and
// current_seq, and for another log with its incarnation; QuotaExceeded if there are too many feeds; Unavailable. The caller closes the feed.
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
	f := &Feed{engine: e, wish: w, filter: matcher, payer: e.payer(w), queue: queue{most: w.Buffer}}
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

// payer returns who pays for a feed's expression.
func (e *Engine) payer(w Wish) filter.Payer {
	p := filter.Payer{Namespace: w.Namespace}
	if e.opts.Payer != nil {
		p.Principal = e.opts.Payer(w.Caller, w.Namespace)
	}
	return p
}

// begin samples the cursor, and then resolves the feed's beginning. A position behind the end
// becomes the end: the log may have lost those events.
func (f *Feed) begin(ctx context.Context) (err error) {
	first, last, err := f.engine.log.Ends(ctx, f.wish.Namespace)
	if err != nil {
		return err
	}
	if f.wish.Log != "" && f.wish.Log != f.hub.log {
		return anotherLog(f.hub.log, first, last)
	}
	f.current = last
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

// Close ends the feed. Call it after Run has returned, or without Run.
func (f *Feed) Close() {
	f.leave()
	f.release()
}

// Current returns the sequence of the last event when the feed was opened: a read up to there and
// the feed from there on are complete (S2-128, S2-129).
func (f *Feed) Current() uint64 { return f.current }

// Incarnation returns the ID of the log.
func (f *Feed) Incarnation() string { return f.hub.log }

// Since returns the sequence behind which the feed begins.
func (f *Feed) Since() uint64 { return f.since }

// Rendered returns a frame as JSON on one line if all feeds of its projection send the same, and
// nil for other frames. The bytes are shared and must not be changed; a sender needs no copy while
// it waits.
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
