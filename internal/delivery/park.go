package delivery

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
)

// park is the state of a parked lane: its record and its read-back position.
type park struct {
	model.ParkedEntry

	upTo        uint64            // highest sequence that was acknowledged unsent: read-back ends there
	ahead       []model.ReadEvent // events that were read and not sent yet
	savedAt     time.Time         // when the record was last stored
	charged     int64             // bytes of the read-ahead budget in use
	anew        uint64            // sequence of a head whose attempts count from 1 again, without those in the log; 0: none
	leaving     bool              // its record is being deleted: arrivals wait in the queue
	index       int               // in the heap; -1: not in it
	verdict     *verdict          // the filter's last answer
	skippedFrom uint64            // the first event that was skipped in favour of the head; 0: none
	waits       bool              // it waits for its path to be quiet
	since       time.Time         // when that wait began
	latest      time.Time         // when its latest event was stored
}

// ended reports whether the lane was read back to its end.
func (p *park) ended() bool { return p.FromSeq > p.upTo }

// following returns the number of the head's next attempt, and sets in the record when the head
// failed first. A crash may have happened between the write to the attempt log and that of the
// record, so the one with more attempts counts, unless an operator released the head.
func (p *park) following(seq uint64, logged model.Progress) int {
	if p.anew == seq {
		logged = model.Progress{}
	}
	if p.FirstFailedAt.IsZero() {
		p.FirstFailedAt = logged.FirstFailed
	}
	return max(p.Attempts, logged.Attempts) + 1
}

// moveTo makes another sequence the head, without any attempts.
func (p *park) moveTo(from uint64) {
	p.FromSeq, p.EventID, p.Attempts, p.BatchTo = from, "", 0, 0
	p.NextAt, p.FirstFailedAt, p.LastError = time.Time{}, time.Time{}, ""
	p.Held, p.HeldAt = "", time.Time{}
}
