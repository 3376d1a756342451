package delivery

import (
	"sync/atomic"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	aheadLimit = 24 << 20 // bytes that all lanes of the process together hold read ahead
	aheadBatch = 4 << 20  // what one batch may come to
	aheadEvent = 1 << 10  // what an event takes besides its data
)

// budget bounds what a runner's lanes read ahead: thousands of them may have a backlog of
// large events. A lane that gets none of it reads one event at a time.
type budget struct {
	shared *atomic.Int64 // taken by all runners of the process
	own    atomic.Int64  // taken by this one
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

// settle keeps of a reserved batch what was read and returns that.
func (b *budget) settle(events []sluice.Event) (size int64) {
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
