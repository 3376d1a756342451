package heap

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSample_IsReturnableWhenQuiet(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, c := range map[string]struct {
		now  sample
		took uint64 // allocated since the sample before
		more uint64 // allocated between the last return and the sample before
		want bool
	}{
		"idle after a burst":        {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, mib, 0, true},
		"all of it is garbage":      {sample{live: 10 * mib, objects: 110 * mib}, mib, 0, true},
		"collected at the height":   {sample{live: 128 * mib, objects: 128 * mib}, mib, 127 * mib, true},
		"a busy process":            {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, 100 * mib, 0, false},
		"a slow stream of events":   {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, 6 * mib, 0, false},
		"all of it is in use":       {sample{live: 80 * mib, objects: 100 * mib}, mib, 0, false},
		"nothing was collected yet": {sample{objects: 30 * mib}, mib, 0, false},
		"more is live than counted": {sample{live: 90 * mib, objects: 80 * mib, free: 31 * mib}, 0, 0, false},
	} {
		c.now.allocated = 1000*mib + c.took
		require.Equal(t, c.want, c.now.returnable(sample{allocated: 1000 * mib}, sample{allocated: 1000*mib - c.more}), name)
	}
}

// returned is how many bytes of the heap the operating system has back.
func returned() uint64 {
	all := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	return all[0].Value.Uint64()
}

var held [][]byte // keeps the test's memory reachable

// Issue 15: the memory of a burst is returned soon after it.
func TestReturn_FollowsABurst(t *testing.T) { //nolint:paralleltest // reads the heap of the process
	for range 128 {
		held = append(held, make([]byte, 1<<20))
	}
	runtime.GC() // at the height of the burst: all of it is in use
	before := returned()
	held = nil
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { Return(ctx, slog.New(slog.DiscardHandler)); close(done) }()
	require.Eventually(t, func() bool { return returned() > before+64<<20 }, time.Minute, 50*time.Millisecond)
	cancel()
	<-done
}

func TestTargetFor_BoundsTheGarbage(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 100, mib: 100, 128 * mib: 100, 129 * mib: 95, 200 * mib: 60, 256 * mib: 50, 512 * mib: 25, 4096 * mib: 25} {
		require.Equal(t, want, targetFor(live), "%d MiB", live/mib)
	}
}

// Garbage on a heap of 200 MiB is collected before there is as much again.
func TestPace_FollowsTheHeap(t *testing.T) { //nolint:paralleltest // reads and sets the collector of the process
	t.Cleanup(func() { held = nil; debug.SetGCPercent(100) })
	for range 200 {
		held = append(held, make([]byte, 1<<20))
	}
	Pace()
	target := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	require.Eventually(t, func() bool {
		runtime.GC()
		metrics.Read(target)
		return target[0].Value.Uint64() == 60
	}, time.Minute, time.Millisecond)
	held = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		metrics.Read(target)
		return target[0].Value.Uint64() == 100
	}, time.Minute, time.Millisecond)
}
