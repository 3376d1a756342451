package deliverystore

import (
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// span is a range of sequences.
type span struct{ from, to uint64 }

// ackTracker knows the deliveries of one consumer that a source handed out, and those that were acknowledged.
type ackTracker struct {
	mu      sync.Mutex
	last    uint64              // highest sequence
	open    map[uint64]struct{} // not acknowledged
	window  int
	pending uint64 // deliveries that waited behind the last one
	expect  uint64 // the one that the last look found waiting; 0: none
	gone    []span // sequences that were passed over since the last look
	changed bool   // since the last look
}

func newAckTracker(info *jetstream.ConsumerInfo, window int, m mark) *ackTracker {
	h := &ackTracker{open: map[uint64]struct{}{}, window: window, last: info.Delivered.Stream, pending: info.NumPending, changed: true}
	if info.NumAckPending > 0 {
		h.last = info.AckFloor.Stream // those above come again
	}
	h.expectNext(m.Next)
	return h
}

// handed enters a delivery. One that comes in the place of the expected one says that all
// before it are gone: a consumer hands out in the order of the log.
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

// moved reports whether there is something to look at.
func (h *ackTracker) moved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed || h.pending > 0 || h.expect > 0 || len(h.open) >= h.window
}

// place is how far a source has come.
type place struct {
	last uint64 // highest sequence that was handed out
	open uint64 // the first one that was not acknowledged; 0: none
}

// floor returns up to where everything is settled or parked.
func (p place) floor() uint64 {
	if p.open == 0 {
		return p.last
	}
	return min(p.last, p.open-1)
}

// look returns how it stands, the next sequence, and the sequences passed over since the last
// look.
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

// again undoes a look that failed, and enters the gaps that it did not report.
func (h *ackTracker) again(gone []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.changed = append(h.gone, gone...), true
}

// expectNext enters the waiting delivery, unless it was handed out meanwhile.
func (h *ackTracker) expectNext(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq > h.last || seq == 0 {
		h.expect = seq
	}
}

// expectNoLonger enters that an event will not come, and reports whether it was expected still.
func (h *ackTracker) expectNoLonger(seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expect != seq {
		return false
	}
	h.expect = 0
	return true
}
