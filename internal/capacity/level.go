package capacity

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Events published between two checks must not use up the reserve: no network is faster than
// fastest.
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

// Next returns the level that follows a level. A level is left with one and a half times the space
// at which it is entered, so that the removal of one event does not reopen the store for one.
// Without a limit there is no level.
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

// Again returns the time until the next check, within every: before the store can reach the next
// level.
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
