package capacity

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of the time until the next check. Events that arrive at the rate fastest, which no network
// exceeds, must not use up the reserve before it; soonest is the shortest interval.
const (
	fastest = 2 << 30 // bytes a second
	soonest = 5 * time.Millisecond
)

// maxReserve is the reserve for records in a large store.
const maxReserve = 1 << 30

// Reserve returns how many bytes of a store are reserved for records: a tenth of its limit, one GiB
// at most.
func Reserve(limit uint64) uint64 { return min(limit/10, maxReserve) }

// Left returns how many bytes can still be stored: the rest of the limit, or the free disk space if
// that is less.
func Left(s sluice.Storage) uint64 {
	left := s.LimitBytes - min(s.UsedBytes, s.LimitBytes)
	if s.FreeBytes != nil {
		left = min(left, *s.FreeBytes)
	}
	return left
}

// Next returns the level that follows a level. The store leaves a level only with one and a half
// times the space at which it entered it, so that the removal of one event does not reopen the
// store for one. A store without a limit is always ample.
func Next(was sluice.StorageLevel, s sluice.Storage) sluice.StorageLevel {
	left, reserve := Left(s), Reserve(s.LimitBytes)
	scarce, tight := reserve/2, reserve
	if was >= sluice.StorageScarce {
		scarce += scarce / 2
	}
	if was >= sluice.StorageTight {
		tight += tight / 2
	}
	switch {
	case s.LimitBytes == 0:
		return sluice.StorageAmple
	case left < scarce:
		return sluice.StorageScarce
	case left < tight:
		return sluice.StorageTight
	}
	return sluice.StorageAmple
}

// Again returns the time until the next check, at most every, and short enough that the store
// cannot reach the next level before it.
func Again(is sluice.StorageLevel, s sluice.Storage, every time.Duration) time.Duration {
	mark := Reserve(s.LimitBytes)
	if is == sluice.StorageTight {
		mark /= 2
	}
	if is > sluice.StorageTight || s.LimitBytes == 0 {
		return every
	}
	room := Left(s) - min(Left(s), mark)
	return min(every, max(soonest, time.Duration(float64(room)/fastest*float64(time.Second))))
}
