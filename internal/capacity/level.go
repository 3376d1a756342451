package capacity

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// What is published in the time between two looks must not take the reserve: more than fastest comes over no network.
const (
	fastest = 2 << 30 // bytes a second
	soonest = 5 * time.Millisecond
)

// maxReserve is what is kept for records of a large store.
const maxReserve = 1 << 30

// Reserve returns how many bytes of a store are kept for records: a tenth of its limit, one GiB at most.
func Reserve(limit uint64) uint64 { return min(limit/10, maxReserve) }

// Left returns how many bytes can still be stored: what the limit allows, or what the disk has free if that is less.
func Left(s sluice.Storage) uint64 {
	left := s.LimitBytes - min(s.UsedBytes, s.LimitBytes)
	if s.FreeBytes != nil {
		left = min(left, *s.FreeBytes)
	}
	return left
}

// Next returns the level of a store that was at a level. A level is left at half as much room again as it is entered with,
// so that one event that goes does not open the doors for one. Without a limit there is no level.
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

// Again returns when to look again, within every: before the store can come to the next level.
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
