package module

import "fmt"

// maxMiB is the maximum of a size. Its bytes fit an int64; a larger number could overflow to no
// limit.
const maxMiB = 1 << 33

// check validates the limits that the type permits.
func (l *Limits) check() error {
	if l.Processor < 0 {
		return fmt.Errorf("limits.processor %s: write a duration such as 10s, or 0s for no limit", l.Processor)
	}
	for _, size := range []struct {
		field string
		mib   uint64
	}{{"memoryMiB", l.MemoryMiB}, {"fileMiB", l.FileMiB}, {"tempMiB", l.TempMiB}} {
		if size.mib > maxMiB {
			return fmt.Errorf("limits.%s %d: use at most %d", size.field, size.mib, uint64(maxMiB))
		}
	}
	return nil
}
