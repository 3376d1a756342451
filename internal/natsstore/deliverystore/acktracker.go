package deliverystore

import (
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// span is a range of sequences.
type span struct{ from, to uint64 }

// ackTracker tracks which deliveries of one consumer a source has passed on, and which were
// acknowledged. The puller of the source calls handed, the workers call acknowledged, and one look
// at a time calls the others; mu guards all fields but window.
type ackTracker struct {
	mu      sync.Mutex
	last    uint64              // highest sequence that was passed on
	open    map[uint64]struct{} // passed on and not acknowledged
	window  int
	pending uint64 // undelivered messages after the last one
	expect  uint64 // the next event, according to the last look; 0: none
	gone    []span // sequences that were skipped since the last look
	changed bool   // since the last look
}

func newAckTracker(info *jetstream.ConsumerInfo, window int, m mark) *ackTracker {
	h := &ackTracker{open: map[uint64]struct{}{}, window: window, last: info.Delivered.Stream, pending: info.NumPending, changed: true}
	if info.NumAckPending > 0 {
		h.last = info.AckFloor.Stream // the deliveries after it are repeated
	}
	h.expectNext(m.Next)
	return h
}

// handed records a delivery. If it is later than the expected one, the sequences from that one up
// to it are gone: a consumer delivers in the order of the log.
func (h *ackTracker) handed(meta *nats.MsgMetadata) {
	seq := meta.Sequence.Stream
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[seq] = struct{}{}
	h.last, h.pending, h.changed = max(h.last, seq), meta.NumPending, true
	if h.expect == 0 || seq < h.expect {
		return
	}
	if seq > h.expect {
		h.gone = append(h.gone, span{h.expect, seq - 1})
	}
	h.expect = 0
}

func (h *ackTracker) acknowledged(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, seq)
	h.changed = true
}

// moved reports whether a look may find changes.
func (h *ackTracker) moved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed || h.pending > 0 || h.expect > 0 || len(h.open) >= h.window
}

// place is the progress of a source.
type place struct {
	last uint64 // highest sequence that was passed on
	open uint64 // first sequence that was not acknowledged; 0: none
}

// floor returns the sequence up to which everything is settled or parked.
func (p place) floor() uint64 {
	if p.open == 0 {
		return p.last
	}
	return min(p.last, p.open-1)
}

// look returns the progress, the expected sequence, and the sequences that were skipped since the
// last look. The caller reports the skipped sequences, or gives them back with again. O(len(open)),
// at most the window.
func (h *ackTracker) look() (now place, expect uint64, gone []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now.last = h.last
	for seq := range h.open {
		if now.open == 0 || seq < now.open {
			now.open = seq
		}
	}
	gone, h.gone, h.changed = h.gone, nil, false
	return now, h.expect, gone
}

// again reverts a failed look, and records the skipped sequences that it did not report.
func (h *ackTracker) again(gone []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.changed = append(h.gone, gone...), true
}

// expectNext records the next expected delivery, unless it was passed on in the meantime.
func (h *ackTracker) expectNext(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq > h.last || seq == 0 {
		h.expect = seq
	}
}

// expectNoLonger records that an event will not be delivered, and reports whether it was still
// expected.
func (h *ackTracker) expectNoLonger(seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expect != seq {
		return false
	}
	h.expect = 0
	return true
}
