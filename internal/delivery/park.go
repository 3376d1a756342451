package delivery

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// park is a lane's record and its read-back position.
type park struct {
	model.ParkedEntry

	upTo        uint64         // highest sequence acknowledged unsent: read-back ends there
	ahead       []sluice.Event // read, not sent yet
	savedAt     time.Time      // when the record was last stored
	charged     int64          // bytes of the budget used by read-ahead
	anew        uint64         // a head whose attempts are counted anew, without those in the log; 0: none
	leaving     bool           // its record is being deleted: arrivals wait
	index       int            // in the heap; -1: not in it
	verdict     *verdict       // the filter's last answer
	skippedFrom uint64         // the first event in whose place a later one is sent; 0: none
	waits       bool           // for its path to be quiet
	since       time.Time      // when that began
	latest      time.Time      // when its latest event was stored
}

// ended reports whether the lane was read back to its end.
func (p *park) ended() bool { return p.FromSeq > p.upTo }

// following returns the number of the head's next attempt, and enters in the record when the head
// failed first. After a crash between the two writes, of the log and the record the one with more
// attempts is right, unless an operator had the head tried anew.
func (p *park) following(seq uint64, logged model.Progress) int {
	if p.anew == seq {
		logged = model.Progress{}
	}
	if p.FirstFailedAt.IsZero() {
		p.FirstFailedAt = logged.FirstFailed
	}
	return max(p.Attempts, logged.Attempts) + 1
}

// moveTo makes another sequence the head, without any progress.
func (p *park) moveTo(from uint64) {
	p.FromSeq, p.EventID, p.Attempts, p.BatchTo = from, "", 0, 0
	p.NextAt, p.FirstFailedAt, p.LastError = time.Time{}, time.Time{}, ""
	p.Held, p.HeldAt = "", time.Time{}
}
