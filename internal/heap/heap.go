// Package heap sets the memory limit of the process, and returns memory that it no longer needs.
package heap

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limit sets the limit of the Go runtime to nine tenths of the memory that the process's control
// group allows, so that garbage is collected more often before the kernel kills the process.
// GOMEMLIMIT overrides it. Without a control group there is no limit.
func Limit() error {
	_, err := memlimit.Set()
	if errors.Is(err, memlimit.ErrNoCgroup) || errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		return nil
	}
	return err
}

const (
	every = 5 * time.Second // between two samples
	least = 32 << 20        // minimum number of spare bytes that is worth a collection
	quiet = 16              // number of intervals for which the spare memory must last
)

// Return returns memory to the operating system after each burst, until the context ends. By
// itself, the runtime does so only after the next collection, which may be two minutes away in an
// idle process.
func Return(ctx context.Context, log *slog.Logger) {
	clock := time.NewTicker(every)
	defer clock.Stop()
	for was, last := read(), (sample{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		now := read()
		if now.returnable(was, last) {
			debug.FreeOSMemory()
			log.DebugContext(ctx, "memory returned", slog.Uint64("bytes", now.spare(last)))
			last = now
		}
		was = now
	}
}

// sample is the state of the heap. All numbers are bytes.
type sample struct {
	live      uint64 // in use at the end of the last collection
	objects   uint64 // in use, and garbage
	free      uint64 // neither in use nor returned
	allocated uint64 // since the start of the process
}

// read returns the present sample.
func read() sample {
	all := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(all)
	n := func(i int) uint64 { return all[i].Value.Uint64() }
	return sample{live: n(0), objects: n(1), free: n(2), allocated: n(3)}
}

// spare returns the memory that the process holds but may not use. That is the memory that was not
// in use at the last collection, and the memory that was in use then but was allocated after the
// last return: the runtime may have collected at the height of a burst, and that memory may be
// garbage now.
func (s sample) spare(last sample) uint64 {
	return s.free + s.objects - min(s.live, s.objects) + min(s.live, s.allocated-last.allocated)
}

// returnable reports whether the spare memory is worth a collection and will not be used soon.
func (s sample) returnable(was, last sample) bool {
	spare := s.spare(last)
	return spare >= least && (s.allocated-was.allocated)*quiet < spare
}
