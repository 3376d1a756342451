package feed

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Item is an event with its rendered frames. Each frame is rendered when a feed first needs it,
// once for all feeds.
type Item struct {
	Event sluice.Event

	parsed filter.Parsed
	frames [projections]struct {
		once sync.Once
		json []byte
	}
}

// NewItem returns the item of an event. The caller must not change the event's data and extensions
// any more.
func NewItem(ev sluice.Event) *Item { return &Item{Event: ev} }

// items are the ring's operations on items.
var items = ringbuffer.Of[*Item]{Seq: func(it *Item) uint64 { return it.Event.Seq }, Weight: (*Item).weight} //nolint:gochecknoglobals // read-only

// weight returns approximately how many bytes of memory an item takes.
func (it *Item) weight() int { return 2*len(it.Event.Data) + itemOverhead } // the data, and one frame with it

const itemOverhead = 512

// Projection says how much of an event's data a frame has (register C10).
type Projection uint8

// The projections.
const (
	ByCatalogue Projection = iota // the summary if the catalogue has one, else all data
	Full
	Summary // no data if the catalogue has no summary
	None
	projections
)

// ParseProjection returns the projection of a name; "" is ByCatalogue. Code InvalidRequest.
func ParseProjection(name string) (Projection, error) {
	switch name {
	case "":
		return ByCatalogue, nil
	case sluice.ProjectionFull:
		return Full, nil
	case sluice.ProjectionSummary:
		return Summary, nil
	case sluice.ProjectionNone:
		return None, nil
	}
	return 0, sluice.Errorf(sluice.InvalidRequest, "projection %q: use full, summary or none", name).With("field", "projection")
}

// renderer renders events.
type renderer struct {
	summary   func(*sluice.Event) []byte // nil: there is none
	publicURL string
}

// frame returns {"seq":…,"event":{…}} on one line.
func (r *renderer) frame(it *Item, p Projection) []byte {
	f := &it.frames[p]
	f.once.Do(func() {
		b := make([]byte, 0, len(it.Event.Data)+itemOverhead)
		b = r.project(&it.Event, p).AppendJSON(appendHead(b, it.Event.Seq))
		f.json = oneLine(append(b, '}'))
	})
	return f.json
}

// event returns the event alone, without its frame.
func (r *renderer) event(it *Item, p Projection) []byte {
	whole := r.frame(it, p)
	var head [64]byte
	return whole[len(appendHead(head[:0], it.Event.Seq)) : len(whole)-1]
}

func appendHead(b []byte, seq uint64) []byte {
	return append(strconv.AppendUint(append(b, `{"seq":`...), seq, 10), `,"event":`...)
}

// oneLine replaces line breaks with spaces, in place. In JSON, line breaks occur only between
// tokens.
func oneLine(b []byte) []byte {
	for i := bytes.IndexAny(b, "\r\n"); i >= 0 && i < len(b); i++ {
		if b[i] == '\r' || b[i] == '\n' {
			b[i] = ' '
		}
	}
	return b
}

// project returns the event with the projected data. If that is not all data, the event refers to
// the complete one in dataref.
func (r *renderer) project(ev *sluice.Event, p Projection) *sluice.Event {
	var summary []byte
	if p != None && p != Full && r.summary != nil {
		summary = r.summary(ev)
	}
	if p == Full || p == ByCatalogue && summary == nil {
		return ev
	}
	less := *ev
	less.Data, less.ContentType = summary, "application/json"
	less.Extensions = maps.Clone(ev.Extensions)
	if less.Extensions == nil {
		less.Extensions = map[string]string{}
	}
	delete(less.Extensions, sluice.DataRef) // the publisher's reference is to the complete data
	if r.publicURL != "" {
		less.Extensions[sluice.DataRef] = strings.TrimSuffix(r.publicURL, "/") + "/v1/namespaces/" + ev.Namespace + "/events/" + strconv.FormatUint(ev.Seq, 10)
	}
	return &less
}
