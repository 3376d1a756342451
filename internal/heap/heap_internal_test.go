package heap

import (
	"context"
	"log/slog"
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
		want bool
	}{
		"idle after a burst":        {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, mib, true},
		"all of it is garbage":      {sample{live: 10 * mib, objects: 110 * mib}, mib, true},
		"a busy process":            {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, 100 * mib, false},
		"a slow stream of events":   {sample{live: 80 * mib, objects: 100 * mib, free: 60 * mib}, 5 * mib, false},
		"all of it is in use":       {sample{live: 80 * mib, objects: 100 * mib}, mib, false},
		"nothing was collected yet": {sample{objects: 31 * mib}, mib, false},
		"more is live than counted": {sample{live: 90 * mib, objects: 80 * mib, free: 31 * mib}, 0, false},
	} {
		c.now.allocated = 1000*mib + c.took
		require.Equal(t, c.want, c.now.returnable(sample{allocated: 1000 * mib}), name)
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
	before := returned()
	held = nil
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { Return(ctx, slog.New(slog.DiscardHandler)); close(done) }()
	require.Eventually(t, func() bool { return returned() > before+64<<20 }, time.Minute, 50*time.Millisecond)
	cancel()
	<-done
}
