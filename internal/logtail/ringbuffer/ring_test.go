package ringbuffer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
)

type element struct {
	seq    uint64
	weight int
}

// made returns a ring of elements.
func made(size, weight int, base uint64) *ringbuffer.Ring[element] {
	of := ringbuffer.Of[element]{Seq: func(e element) uint64 { return e.seq }, Weight: func(e element) int { return e.weight }}
	return ringbuffer.New(of, size, weight, base)
}

// S2-77…79, S2-89: a ring pushes out what is oldest, and knows what it covers.
func TestRing_KeepsTheLast(t *testing.T) {
	t.Parallel()
	r := made(3, 1<<20, 10)
	var into [8]element
	got, err := r.Take(10, into[:0])
	require.NoError(t, err)
	require.True(t, got.Covered)
	require.NotNil(t, got.Changed)
	for _, seq := range []uint64{12, 13, 17, 18} {
		require.Nil(t, r.Room(element{seq, 1}), "no reader looks")
		require.True(t, r.Add(element{seq, 1}))
	}
	<-got.Changed
	got, err = r.Take(10, into[:0])
	require.NoError(t, err)
	require.False(t, got.Covered, "12 was pushed out")
	require.Equal(t, uint64(12), r.From())
	require.Equal(t, uint64(18), r.Last())
	got, err = r.Take(12, into[:0:2])
	require.NoError(t, err)
	require.Equal(t, []element{{13, 1}, {17, 1}}, got.Items, "as many as fit")
	n, last := r.Backlog(12, 1)
	require.Equal(t, 3, n)
	require.Equal(t, uint64(17), last)
	require.False(t, r.Add(element{18, 1}), "a log that goes back is another one")
	over := errors.New("over")
	r.End(over)
	_, err = r.Take(17, into[:0])
	require.NoError(t, err, "what there is comes before the end")
	_, err = r.Take(18, into[:0])
	require.ErrorIs(t, err, over)
}

// An element that a reader has not seen is not pushed out: the reader of the log waits, and half of the ring is read.
func TestRing_WaitsForItsReaders(t *testing.T) {
	t.Parallel()
	r := made(8, 1<<20, 0)
	r.Guard()
	for seq := uint64(1); seq <= 8; seq++ {
		require.Nil(t, r.Room(element{seq, 1}))
		require.True(t, r.Add(element{seq, 1}))
		require.Equal(t, seq >= 7, len(r.Filling()) > 0, "when it is full by three quarters")
		require.Equal(t, seq == 8, r.IsPressed())
	}
	swept := r.Room(element{9, 1})
	require.NotNil(t, swept)
	require.Equal(t, uint64(5), r.Middle())
	r.SweptTo(r.Middle())
	<-swept
	require.Nil(t, r.Room(element{9, 1}))
	require.Equal(t, uint64(7), r.Middle())
	require.False(t, r.IsPressed(), "what is old was looked at")
	r = made(8, 10, 0)
	r.Guard()
	require.True(t, r.Add(element{1, 8}))
	require.False(t, r.IsPressed())
	require.True(t, r.Add(element{2, 1}))
	require.True(t, r.IsPressed(), "bytes are counted too")
	r.SweptTo(1)
	require.False(t, r.IsPressed())
}

func TestRing_IsBoundedInBytes(t *testing.T) {
	t.Parallel()
	r := made(1000, 5*512, 0)
	for seq := uint64(1); seq <= 20; seq++ {
		require.True(t, r.Add(element{seq, 512}))
	}
	require.Equal(t, uint64(15), r.From(), "five are left")
	require.True(t, r.Add(element{21, 100 * 512}))
	require.Equal(t, uint64(20), r.From(), "one is always there")
	r.Clear()
	require.Equal(t, []uint64{21, 21, 0}, []uint64{r.From(), r.Last(), uint64(r.Weight())})
}

// A ring that may take less pushes out what was looked at, and has the rest looked at.
func TestRing_Shrinks(t *testing.T) {
	t.Parallel()
	r := made(1000, 20, 0)
	r.Guard()
	for seq := uint64(1); seq <= 10; seq++ {
		require.True(t, r.Add(element{seq, 1}))
	}
	r.SweptTo(2)
	r.Limit(2)
	require.Equal(t, uint64(2), r.From(), "3 was not looked at")
	<-r.Filling()
	r.SweptTo(r.Middle())
	require.Equal(t, uint64(7), r.From())
	<-r.Filling()
	r.SweptTo(10)
	require.Equal(t, uint64(8), r.From())
	require.Equal(t, 2, r.Weight())
	r.Limit(0)
	require.Equal(t, 1, r.Weight(), "one is always there")
	r.Limit(100)
	require.True(t, r.Add(element{11, 50}))
	require.Equal(t, uint64(9), r.From())
}

// A strict ring keeps no element that alone is heavier than its maximum, and knows that it is missing.
func TestRing_StrictKeepsNothingTooHeavy(t *testing.T) {
	t.Parallel()
	r := made(8, 10, 0)
	r.Strict()
	got, err := r.Take(0, nil)
	require.NoError(t, err)
	require.True(t, r.Add(element{1, 4}))
	<-got.Changed
	require.Equal(t, 4, r.Weight())
	require.True(t, r.Add(element{2, 11}))
	require.Zero(t, r.Weight())
	require.Equal(t, uint64(2), r.From())
	got, err = r.Take(1, nil)
	require.NoError(t, err)
	require.False(t, got.Covered)
	require.True(t, r.Add(element{3, 10}))
	r.Limit(9)
	require.Zero(t, r.Weight(), "not even the last")
	require.Equal(t, uint64(3), r.From())
}
