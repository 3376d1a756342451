package deliverystore

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeries_CutsBlocksWithinTheirBounds(t *testing.T) {
	t.Parallel()
	of := func(sizes ...int) *series {
		s := &series{}
		for _, size := range sizes {
			s.waiting = append(s.waiting, recording{line: bytes.Repeat([]byte("x"), size)})
		}
		return s
	}
	many := of(make([]int, 150)...)
	for _, want := range []int{blockAttempts, blockAttempts, 150 - 2*blockAttempts} {
		b := many.cut(blockBytes)
		require.Len(t, b.recs, want)
		require.Same(t, b, many.block)
	}
	require.Empty(t, many.waiting)

	for _, tt := range []struct {
		size, want int
		sizes      []int
	}{
		{10, 1, []int{11, 1}}, // one is taken, however large it is
		{10, 2, []int{5, 4}},  // and a line feed
		{10, 1, []int{5, 5}},
		{10, 2, []int{4, 4, 1}},
		{0, 1, []int{1}},
	} {
		s := of(tt.sizes...)
		b := s.cut(tt.size)
		require.Len(t, b.recs, tt.want, "%v", tt)
		require.Len(t, s.waiting, len(tt.sizes)-tt.want, "%v", tt)
		if tt.want > 1 {
			require.LessOrEqual(t, len(b.message().Data), tt.size)
		}
	}
}

func TestBlock_LeavesHalfToTheNext(t *testing.T) {
	t.Parallel()
	s := &series{}
	for _, line := range "abcde" {
		s.waiting = append(s.waiting, recording{line: []byte(string(line))})
	}
	b := s.cut(6)
	require.Equal(t, "a\nb\nc", string(b.message().Data))
	b.halve()
	require.Equal(t, "a\nb", string(b.message().Data))
	require.Equal(t, "c\nd\ne", string(s.cut(6).message().Data))
}
