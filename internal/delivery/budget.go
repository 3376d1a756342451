package delivery

import (
	"sync/atomic"

	"github.com/sluice-io/sluice/internal/model"
)

const (
	aheadLimit = 24 << 20 // maximum bytes that all lanes of the process read ahead together
	aheadBatch = 4 << 20  // upper limit of one batch
	aheadEvent = 1 << 10  // overhead of an event besides its data
)

// budget bounds the memory for events that the lanes of a runner read ahead, because thousands of
// lanes may have a backlog of large events. A lane that gets no share reads one event at a time.
type budget struct {
	shared *atomic.Int64 // taken by all runners of the process
	own    atomic.Int64  // taken by this runner
}

// take reserves a batch, and reports whether there is room for it.
func (b *budget) take() bool {
	if b.shared.Add(aheadBatch) > aheadLimit {
		b.shared.Add(-aheadBatch)
		return false
	}
	b.own.Add(aheadBatch)
	return true
}

// settle keeps the share for the events that were read, gives the rest of the batch back, and
// returns the size that it kept.
func (b *budget) settle(events []model.ReadEvent) (size int64) {
	for i := range events {
		size += aheadEvent + int64(len(events[i].Data))
	}
	b.give(aheadBatch - size)
	return size
}

func (b *budget) give(size int64) {
	b.shared.Add(-size)
	b.own.Add(-size)
}

// reset gives back everything that the runner has taken.
func (b *budget) reset() { b.give(b.own.Load()) }
