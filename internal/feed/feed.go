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
	Since      string // a cursor: the feed has the events behind it; empty: events from now on
	Log        string // the incarnation of the log that Since belongs to; empty: the present log
	Projection Projection
	Coalesce   Coalesce
	Buffer     int // frames that the reader may be behind; 0: Options.Ring, but at most Options.MaxBuffer
	Caller     sluice.Caller
}

// Feed delivers the events of a namespace in order, from a position on and then live. One goroutine
// at a time calls its methods.
type Feed struct {
	engine  *Engine
	hub     *hub
	wish    Wish
	filter  *filter.Matcher
	payer   filter.Payer // of its expression
	current uint64
	since   uint64
	told    []sluice.Gap // the ranges for which frames were sent; under mu
	begins  int          // how often the oldest event was gone before it was read
	leave   func()
	release func()
	budget  budget
	end     context.CancelCauseFunc // cancels the context of Run

	mu    sync.Mutex    // held while looking at events; guards the following fields
	place uint64        // everything up to it was processed
	page  []*Item       // items of the log after place that were not processed yet
	read  uint64        // up to here the page has all events of the log that may be wanted
	held  *coalescer    // nil: no events are held back
	now   []Frame       // next frames, while the reader waits for them; without capacity: it does not wait
	load  int           // the weight of now
	queue queue         // frames to send after that
	until time.Time     // deadline for looking at events; zero: none
	owes  time.Duration // how long the expression is not evaluated, because the payer's costs are not paid yet
	dear  bool          // the hub ran out of time here and pauses until the reader takes a frame
}

// Open enters the namespace's log reader first, and then determines the end of the log and the
// feed's beginning, so that no event falls in between (S2-124…129). The caller closes the feed.
// Codes: InvalidRequest; NotFound; Forbidden; WindowExceeded, with oldest_available_seq and
// current_seq, and with the incarnation of the log if Wish.Log is another one; QuotaExceeded if
// there are too many feeds; Unavailable.
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

// payer returns the account that pays for a feed's expression.
func (e *Engine) payer(w Wish) filter.Payer {
	p := filter.Payer{Namespace: w.Namespace}
	if e.opts.Payer != nil {
		p.Principal = e.opts.Payer(w.Caller, w.Namespace)
	}
	return p
}

// begin reads the end of the log, and then resolves the feed's beginning. If that lies behind the
// end, because the log lost its last events, the feed begins at the end.
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

// Close releases the feed's resources. Call it after Run has returned, or if Run is not called.
func (f *Feed) Close() {
	f.leave()
	f.release()
}

// Current returns the sequence of the last event when the feed was opened. A read up to there and
// the feed from there on miss nothing (S2-128, S2-129).
func (f *Feed) Current() uint64 { return f.current }

// Incarnation returns the ID of the log.
func (f *Feed) Incarnation() string { return f.hub.log }

// Since returns the sequence behind which the feed begins.
func (f *Feed) Since() uint64 { return f.since }

// Rendered returns a frame as one line of JSON if all feeds with this projection send the same
// bytes, otherwise nil. The feeds share the bytes, which must not be changed, so that blocked
// senders hold no copies.
func (f *Feed) Rendered(frame Frame) []byte {
	if frame.item == nil || frame.Count != 1 || frame.Resume != frame.Seq {
		return nil
	}
	return f.engine.draw.frame(frame.item, f.wish.Projection)
}

// AppendFrame appends a frame to b as one line of JSON.
func (f *Feed) AppendFrame(b []byte, frame Frame) []byte {
	switch {
	case frame.Lagged != nil:
		text, err := json.Marshal(map[string]*Lagged{"lagged": frame.Lagged})
		if err != nil {
			return b // cannot happen: it has only numbers and strings
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
