package vector_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
)

// near returns a vector in the neighbourhood of another one, as texts on one topic have.
func near(r *rand.Rand, centre []float32, noise float64) []float32 {
	v := make([]float32, len(centre))
	for i := range v {
		v[i] = centre[i] + float32(noise*r.NormFloat64())
	}
	return v
}

// BenchmarkIndex_Nearest measures the bar of issue 16: 100,000 vectors of 384 dimensions, top 5, in the
// worst case and with the structure that texts have.
func BenchmarkIndex_Nearest(b *testing.B) {
	const dims, size, top = 384, 100_000, 5
	centres := make([][]float32, 500)
	r := random(1)
	for i := range centres {
		centres[i] = gaussian(r, dims)
	}
	for name, make := range map[string]func() []float32{
		"gaussian":  func() []float32 { return gaussian(r, dims) },
		"clustered": func() []float32 { return near(r, centres[r.IntN(len(centres))], 0.8) },
	} {
		b.Run(name, func(b *testing.B) {
			x, began := vector.New[int](dims), time.Now()
			for key := range size {
				require.NoError(b, x.Put(key, make()))
			}
			b.ReportMetric(time.Since(began).Seconds(), "s/build")
			measure(b, x, make, top)
		})
	}
}

// threadTime returns the processor time of this thread, which other work on the machine does not change.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	require.NoError(tb, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

func measure(b *testing.B, x *vector.Index[int], query func() []float32, top int) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took, busy []time.Duration
	var sum float64
	for b.Loop() {
		q := query()
		before, began := threadTime(b), time.Now()
		found, err := x.Nearest(q, top)
		took = append(took, time.Since(began))
		busy = append(busy, threadTime(b)-before)
		require.NoError(b, err)
		if len(took)%10 != 0 {
			continue
		}
		exact, err := x.Exact(q, top)
		require.NoError(b, err)
		sum += recall(found, exact)
	}
	for name, all := range map[string][]time.Duration{"ms": took, "cpu-ms": busy} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"/p50")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"/p99")
	}
	b.ReportMetric(sum/max(1, float64(len(took)/10)), "recall")
}
