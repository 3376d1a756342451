package wake

import (
	"iter"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Clocks of S1.
const (
	// ClaimWithin is how long a notice may go without a 2xx and without a claim (S1-63).
	ClaimWithin = 10 * time.Second
	// LiveFor is how long a consumer may be silent while it is live (S1-43).
	LiveFor = 45 * time.Second
	// mostAhead is how far the end of that may be away, whoever's clock it is of: beyond it the clock was set back.
	mostAhead = 2 * LiveFor
)

// Consumer is the record of a wake consumer: S1's consumer instance (S1-10).
type Consumer struct {
	Path    sluice.Path      `json:"path"` // its primary stream (S1-49)
	Of      string           `json:"of"`   // the incarnation of its subscription
	Since   uint64           `json:"since,omitempty"`
	State   sluice.WakeState `json:"state"`
	Epoch   uint64           `json:"epoch"`
	WakeID  string           `json:"wake_id,omitempty"`
	Streams []Position       `json:"streams,omitempty"` // the primary one first, as long as it is subscribed to

	// Failures is how many attempts of this wake have failed, FailingSince when the first of them did.
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	LastError    string    `json:"last_error,omitempty"`

	// Due is when the next attempt is due (waking), or until when a callback has to come (live).
	Due   time.Time `json:"due,omitzero"`
	Woken time.Time `json:"woken,omitzero"` // when the last wake began
}

// Position is how far a stream is acknowledged (S1-17). Zero is S1's -1: nothing is (S1-19).
type Position struct {
	Path  sluice.Path `json:"path"`
	Acked uint64      `json:"acked"`
	Await bool        `json:"await,omitempty"` // it had been deleted already when it was subscribed to (S1-98)
}

// Tail is what is known of a stream at a moment.
type Tail struct {
	Seq   uint64 // of its last message (S1-18); 0: it has none
	Start uint64 // its messages lie behind this sequence: what was deleted before lies up to it
	Gone  bool   // it was deleted, or has expired, and nothing came after

	Withheld bool   // the subscription's owner may not see its last message
	Shown    uint64 // of the last one that they may see, where that is withheld; 0: none
}

// end returns where the stream ends for the subscription's owner. Readers are told where it really ends, so that one may
// acknowledge up to there.
func (t Tail) end() uint64 {
	if t.Withheld {
		return t.Shown
	}
	return t.Seq
}

// hidden reports whether there is something in the stream, and nothing that the subscription's owner may see.
func (t Tail) hidden() bool { return t.Withheld && t.Shown <= t.Start }

// Tails is what is known of streams. One that is not in it is not known, and so not pending.
type Tails map[sluice.Path]Tail

// NewConsumer returns the consumer of a stream that a subscription matches, idle, acknowledged up to a
// sequence. Whatever was of the stream before the sequence since does not concern it.
func NewConsumer(path sluice.Path, of string, since, acked uint64) Consumer {
	return Consumer{Path: path, Of: of, Since: since, State: sluice.WakeIdle, Streams: []Position{{Path: path, Acked: acked}}}
}

// Back returns the consumer that takes the place of one that was removed, because something was stored at a sequence:
// its epoch goes on (S1-128). nil if that does not bring it back.
func (c Consumer) Back(seq uint64) *Consumer {
	if seq <= c.Since {
		return nil
	}
	next := NewConsumer(c.Path, c.Of, seq, c.acked(c.Path))
	next.Epoch = c.Epoch
	return &next
}

// position returns where the path is in the consumer's streams, -1 if it is not subscribed to.
func (c *Consumer) position(path sluice.Path) int {
	return slices.IndexFunc(c.Streams, func(p Position) bool { return p.Path == path })
}

// Follows reports whether the consumer is subscribed to a stream.
func (c *Consumer) Follows(path sluice.Path) bool { return c.position(path) >= 0 }

// others returns the streams that the consumer follows besides its own.
func (c *Consumer) others() iter.Seq[sluice.Path] {
	return func(yield func(sluice.Path) bool) {
		for _, p := range c.Streams {
			if p.Path != c.Path && !yield(p.Path) {
				return
			}
		}
	}
}

// Paths returns the streams that decide about the consumer: those that it follows, and its primary one.
func (c *Consumer) Paths() []sluice.Path {
	paths := make([]sluice.Path, 0, len(c.Streams)+1)
	for _, p := range c.Streams {
		paths = append(paths, p.Path)
	}
	if !c.Follows(c.Path) {
		paths = append(paths, c.Path)
	}
	return paths
}

// pending reports whether a stream has something behind a position (S1-16). An empty stream has not.
func (t Tail) pending(acked uint64) bool { return !t.Gone && t.end() > acked && t.end() > t.Start }

// Pending returns the streams that have something that was not acknowledged (S1-51).
func (c *Consumer) Pending(tails Tails) []sluice.Path {
	var paths []sluice.Path
	for _, p := range c.Streams {
		if tails[p.Path].pending(p.Acked) {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// orphaned reports whether the primary stream is not the one any more that the consumer was made
// for (S1-122): it was deleted, and may have been made anew since.
func (c *Consumer) orphaned(tails Tails) bool {
	t, known := tails[c.Path]
	return known && (t.Gone || t.Start > 0 && t.Start >= c.Since)
}

// drop leaves the streams that were deleted while they were followed (register C29).
func (c *Consumer) drop(tails Tails) {
	if c.State == sluice.WakeRemoved {
		return
	}
	c.Streams = slices.DeleteFunc(c.Streams, func(p Position) bool { return tails[p.Path].Gone && !p.Await })
	for i, p := range c.Streams {
		t, known := tails[p.Path]
		c.Streams[i].Await = p.Await && (!known || t.Gone)
	}
}

// clone returns a copy that shares nothing.
func (c Consumer) clone() Consumer {
	c.Streams = slices.Clone(c.Streams)
	return c
}
