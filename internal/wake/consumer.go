package wake

import (
	"iter"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Time limits of S1.
const (
	// ClaimWithin is how long a notice may remain without a 2xx and without a claim before it
	// counts as failed (S1-63).
	ClaimWithin = 10 * time.Second
	// LiveFor is how long a consumer may be silent while it is live (S1-43).
	LiveFor = 45 * time.Second
	// mostAhead is how far ahead a due time can be by the clock of any replica. A time beyond it
	// means that the clock was set back.
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
	Streams []Position       `json:"streams,omitempty"` // the primary one first, while the consumer follows it

	// Failures counts the failed attempts of this wake; FailingSince is the time of the first.
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	LastError    string    `json:"last_error,omitempty"`

	// Due is when the next attempt is due (waking), or the deadline of the next callback (live).
	Due   time.Time `json:"due,omitzero"`
	Woken time.Time `json:"woken,omitzero"` // when the last wake began
}

// Position is the acknowledged position in a stream (S1-17). An Acked of zero is the offset -1 of
// S1: nothing (S1-19).
type Position struct {
	Path  sluice.Path `json:"path"`
	Acked uint64      `json:"acked"`
	Await bool        `json:"await,omitempty"` // the stream did not exist when it was subscribed to, and still does not (S1-98)
}

// Tail is a snapshot of a stream.
type Tail struct {
	Seq   uint64 // of the stream's last message (S1-18); 0: it has none
	Start uint64 // the stream's messages are after this sequence; messages up to it were deleted
	Gone  bool   // it was deleted or has expired, and has no message since

	Withheld bool   // the subscription's owner may not see the last message
	Shown    uint64 // of the last visible message, if the last one is withheld; 0: none
}

// end returns the sequence of the last message that the subscription's owner may see. Readers still
// learn the real end of the stream, so acknowledgements up to that are valid.
func (t Tail) end() uint64 {
	if t.Withheld {
		return t.Shown
	}
	return t.Seq
}

// hidden reports whether the stream has messages but none that the subscription's owner may see.
func (t Tail) hidden() bool { return t.Withheld && t.Shown <= t.Start }

// reach returns how far the stream can be acknowledged: up to its end, but not at all if the
// subscription's owner may see nothing of it.
func (t Tail) reach() uint64 {
	if t.hidden() {
		return 0
	}
	return t.Seq
}

// valid reports whether an offset of a stream that is acknowledged up to acked may be acknowledged.
// If nothing is pending, any offset of the log may be, and counts as the end of the stream: the
// server issued it when the stream still had the events that were erased since, or have aged out.
func (t Tail) valid(offset, acked, logEnd uint64) bool {
	return offset <= max(t.reach(), acked) || offset <= logEnd && !t.pending(acked)
}

// Tails are snapshots of streams. A stream without a snapshot counts as not pending.
type Tails map[sluice.Path]Tail

// NewConsumer returns the idle consumer of a stream that a subscription matches. The stream is
// acknowledged up to acked. If the stream was deleted before the sequence since, that does not
// affect the consumer.
func NewConsumer(path sluice.Path, of string, since, acked uint64) Consumer {
	return Consumer{Path: path, Of: of, Since: since, State: sluice.WakeIdle, Streams: []Position{{Path: path, Acked: acked}}}
}

// Back returns the successor of a removed consumer after a message was stored at seq; it continues
// the epoch (S1-128). It returns nil if the message was stored before the removal.
func (c Consumer) Back(seq uint64) *Consumer {
	if seq <= c.Since {
		return nil
	}
	next := NewConsumer(c.Path, c.Of, seq, c.acked(c.Path))
	next.Epoch = c.Epoch
	return &next
}

// position returns the index of a path in the consumer's streams, -1 if the consumer does not
// follow it.
func (c *Consumer) position(path sluice.Path) int {
	return slices.IndexFunc(c.Streams, func(p Position) bool { return p.Path == path })
}

// Follows reports whether the consumer follows a stream.
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

// Paths returns the streams that the consumer's state depends on: those that it follows, and its
// primary one.
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

// pending reports whether a stream has visible messages behind a position (S1-16).
func (t Tail) pending(acked uint64) bool { return !t.Gone && t.end() > acked && t.end() > t.Start }

// Pending returns the streams with unacknowledged messages (S1-51).
func (c *Consumer) Pending(tails Tails) []sluice.Path {
	var paths []sluice.Path
	for _, p := range c.Streams {
		if tails[p.Path].pending(p.Acked) {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// orphaned reports whether the primary stream was deleted since the consumer began (S1-122).
// Another stream may exist on the path by now.
func (c *Consumer) orphaned(tails Tails) bool {
	t, known := tails[c.Path]
	return known && (t.Gone || t.Start > 0 && t.Start >= c.Since)
}

// drop unsubscribes from streams that were deleted while the consumer followed them (register C29).
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

// clone returns a deep copy.
func (c Consumer) clone() Consumer {
	c.Streams = slices.Clone(c.Streams)
	return c
}
