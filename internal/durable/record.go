package durable

import (
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Record is a stream's state besides its messages. A record without an ID is that of a path whose
// events are a stream although no record was stored.
type Record struct {
	ID          string    `json:"id,omitempty"` // of this stream; a later stream on the same path has another one
	ContentType string    `json:"content_type,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	Start       uint64    `json:"start,omitempty"` // its own messages are after this sequence

	Closed    bool   `json:"closed,omitempty"`
	ClosingBy *Claim `json:"closing_by,omitempty"` // the append of a producer that closed it

	Lifetime Lifetime  `json:"lifetime,omitzero"`
	Renewed  time.Time `json:"renewed,omitzero"` // when a use of the stream was last stored

	Fork      *Fork     `json:"fork,omitempty"`
	Inherited []Segment `json:"inherited,omitempty"` // the content of a fork before its own messages
	Children  []Child   `json:"children,omitempty"`  // its forks

	State     State               `json:"state,omitempty"`
	Seq       string              `json:"seq,omitempty"` // the last Stream-Seq
	HasSeq    bool                `json:"has_seq,omitempty"`
	Producers map[string]Producer `json:"producers,omitempty"`
	Writes    uint64              `json:"writes,omitempty"` // number of writes of this record

	// Owner is the engine that may store changes of the producers and of Stream-Seq as notes.
	// OwnedAt is when it took over or last wrote the record. Base is the sequence up to which notes
	// are in the record. Without an owner the record is complete.
	Owner   string    `json:"owner,omitempty"`
	OwnedAt time.Time `json:"owned_at,omitzero"`
	Base    uint64    `json:"base,omitempty"`
}

// State says whether the stream exists.
type State string

// The states of a record.
const (
	Live State = ""
	Soft State = "soft" // deleted, but kept for its forks
	Gone State = "gone" // deleted, or never created; events up to Start belong to no stream
)

// Fork is the source of a fork, as it was requested.
type Fork struct {
	From   sluice.Path `json:"from"`
	ID     string      `json:"id"` // of the source
	Offset uint64      `json:"offset"`
	Sub    int64       `json:"sub,omitempty"`
	Depth  int         `json:"depth,omitempty"` // number of sources in the chain
}

// Child is a fork of a stream.
type Child struct {
	Path sluice.Path `json:"path"`
	ID   string      `json:"id"`
}

// Segment is the part (After, UpTo] of a path's log. If Cut is not 0, it has only the first Cut
// bytes of the message at UpTo.
type Segment struct {
	Path  sluice.Path `json:"path"`
	After uint64      `json:"after"`
	UpTo  uint64      `json:"up_to"`
	Cut   int64       `json:"cut,omitempty"`
}

const endless = ^uint64(0)

// segments returns a stream's complete content: the inherited segments and its own.
func (r *Record) segments(path sluice.Path) []Segment {
	return append(slices.Clone(r.Inherited), Segment{Path: path, After: r.Start, UpTo: endless})
}

// clip returns the part of segments up to a sequence.
func clip(segments []Segment, upTo uint64) []Segment {
	var kept []Segment
	for _, s := range segments {
		if s.After >= upTo {
			break
		}
		if s.UpTo > upTo {
			s.UpTo, s.Cut = upTo, 0
		}
		kept = append(kept, s)
	}
	return kept
}

// behind returns the part of segments after a sequence.
func behind(segments []Segment, after uint64) []Segment {
	var kept []Segment
	for _, s := range segments {
		if s.UpTo <= after {
			continue
		}
		s.After = max(s.After, after)
		kept = append(kept, s)
	}
	return kept
}

// inheritedEnd returns the offset at the end of the inherited content.
func (r *Record) inheritedEnd() uint64 {
	if len(r.Inherited) == 0 {
		return 0
	}
	return r.Inherited[len(r.Inherited)-1].UpTo
}

// cut returns an event with its data cut as the segment requires.
func (s Segment) cut(ev sluice.Event) sluice.Event {
	if s.Cut > 0 && ev.Seq == s.UpTo && int64(len(ev.Data)) > s.Cut {
		ev.Data = ev.Data[:s.Cut]
	}
	return ev
}

// without returns a stream's forks, except the one with an id.
func (r *Record) without(id string) []Child {
	return slices.DeleteFunc(slices.Clone(r.Children), func(c Child) bool { return c.ID == id })
}
