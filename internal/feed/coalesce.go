package feed

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Coalesce says which events of a feed are merged into one frame: those with the same values of all
// labels within a window (S2-143…146, register C31). Without labels, none are.
type Coalesce struct {
	Labels []string      `json:"labels"`
	Window time.Duration `json:"-"`
	First  bool          `json:"-"` // send the first event of a window instead of the last
}

// Limits of a window.
const (
	DefaultWindow = 100 * time.Millisecond
	MinWindow     = time.Millisecond
	MaxWindow     = 5 * time.Second
)

// coalescer holds events back until a window ends. The window begins with the first held event. The
// caller passes the time.
type coalescer struct {
	wish   Coalesce
	labels func(ev *sluice.Event) func(name string) (string, bool)
	most   int // maximum of held groups
	weight int // of the held events
	groups map[string]*Frame
	due    time.Time // when the window ends; zero: nothing is held
	key    []byte
}

// add takes the next event, and returns the frames to send at once: the event itself if it lacks a
// label, or the held frames if they are too many or too large for another one.
func (c *coalescer) add(it *Item, now time.Time) (frames []Frame) {
	if !c.keyOf(&it.Event) {
		return []Frame{{item: it, Seq: it.Event.Seq, Resume: c.resume(it.Event.Seq), Count: 1}}
	}
	if g := c.groups[string(c.key)]; g != nil {
		g.Seq = it.Event.Seq
		g.Count++
		if !c.wish.First {
			c.weight += it.weight() - g.item.weight()
			g.item = it
		}
		return nil
	}
	if len(c.groups) >= c.most || c.weight >= maxWeight {
		frames = c.flush()
	}
	c.weight += it.weight()
	if len(c.groups) == 0 {
		c.due = now.Add(c.wish.Window)
	}
	c.groups[string(c.key)] = &Frame{item: it, Seq: it.Event.Seq, from: it.Event.Seq, Count: 1}
	return frames
}

// flush returns the held frames in the order of their sequences, and ends the window.
func (c *coalescer) flush() []Frame {
	frames := make([]Frame, 0, len(c.groups))
	for _, g := range c.groups {
		frames = append(frames, *g)
	}
	slices.SortFunc(frames, func(a, b Frame) int { return cmp.Compare(a.Seq, b.Seq) })
	before := uint64(lastSeq) // the position before the first events of all later frames
	for i := len(frames) - 1; i >= 0; i-- {
		frames[i].Resume = min(frames[i].Seq, before)
		before = min(before, frames[i].from-1)
	}
	clear(c.groups)
	c.due, c.weight = time.Time{}, 0
	return frames
}

// isOver reports whether the window has ended, so that the caller has to flush.
func (c *coalescer) isOver(now time.Time) bool { return !c.due.IsZero() && !now.Before(c.due) }

// resume returns the resume position of a reader that was sent everything up to seq except held
// events. It is before the first event of every held group; otherwise the frame of a group would
// count too few events after a resume.
func (c *coalescer) resume(seq uint64) uint64 {
	for _, g := range c.groups {
		seq = min(seq, g.from-1)
	}
	return seq
}

// keyOf sets c.key to the values of all labels, each with its length. It returns false if the event
// lacks a label.
func (c *coalescer) keyOf(ev *sluice.Event) bool {
	c.key = c.key[:0]
	find := c.labels(ev)
	for _, name := range c.wish.Labels {
		value, ok := labelOf(ev, find, name)
		if !ok {
			return false
		}
		c.key = strconv.AppendInt(c.key, int64(len(value)), 10)
		c.key = append(append(c.key, ':'), value...)
	}
	return true
}

// labelOf returns a label of an event, and whether it has it. Every event has type and path; it has
// source and subject unless they are empty. variant is another name of the type, unless the event
// has a label of that name itself.
func labelOf(ev *sluice.Event, find func(name string) (string, bool), name string) (string, bool) {
	switch name {
	case "type":
		return cmp.Or(ev.Type, sluice.DefaultType), true
	case "path":
		return string(ev.Path), true
	case "source":
		return ev.Source, ev.Source != ""
	case "subject":
		return ev.Subject, ev.Subject != ""
	}
	value, ok := find(name)
	if !ok && name == "variant" {
		return cmp.Or(ev.Type, sluice.DefaultType), true
	}
	return value, ok
}
