package httpkit

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// allocated returns how many bytes f allocates, which is more than it has at any moment.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadAll_TakesBodiesOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 511, 512, 513, 5000} {
		want := bytes.Repeat([]byte("x"), size)
		for _, length := range []int64{-1, 0, int64(size), int64(size) + 1000} {
			got, err := readAll(iotest.OneByteReader(bytes.NewReader(want)), length)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
	_, err := readAll(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc"))), -1)
	require.ErrorIs(t, err, iotest.ErrTimeout)
}

func TestReadAll_AllocatesForReceivedBytes(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	data := make([]byte, 8<<20)
	got := allocated(func() { _, _ = readAll(bytes.NewReader(data), int64(len(data))) })
	require.LessOrEqual(t, got, uint64(4*len(data)))
	got = allocated(func() { _, _ = readAll(strings.NewReader("x"), 8<<20) })
	require.LessOrEqual(t, got, uint64(64<<10), "what is announced only costs nothing")
}
