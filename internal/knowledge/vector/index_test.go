package vector_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/knowledge/vector"
)

// gaussian returns a vector without any structure: the worst case of a search.
func gaussian(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// recall returns the share of the exact neighbours that a search found.
func recall(found, exact []vector.Neighbour[int]) float64 {
	hits := 0
	for _, e := range exact {
		if slices.ContainsFunc(found, func(n vector.Neighbour[int]) bool { return n.Key == e.Key }) {
			hits++
		}
	}
	return float64(hits) / float64(len(exact))
}

// S3-76, S3-78.
func TestIndex_SmallOneIsExactAndOrdered(t *testing.T) {
	t.Parallel()
	x := vector.New[string](2)
	for key, v := range map[string][]float32{"east": {2, 0}, "north": {0, 3}, "northeast": {1, 1}, "west": {-1, 0}} {
		require.NoError(t, x.Put(key, v))
	}
	found, err := x.Nearest([]float32{5, 0.1}, 3)
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, []string{"east", "northeast", "north"}, []string{found[0].Key, found[1].Key, found[2].Key})
	require.InDelta(t, math.Cos(math.Atan2(0.1, 5)), found[0].Similarity, 1e-6)
}

func TestIndex_RefusesVectorsWithoutADirection(t *testing.T) {
	t.Parallel()
	x := vector.New[int](3)
	for _, c := range []struct {
		v    []float32
		want error
	}{
		{[]float32{1, 2}, vector.ErrDimensions{Is: 2, Want: 3}},
		{[]float32{1, 2, 3, 4}, vector.ErrDimensions{Is: 4, Want: 3}},
		{nil, vector.ErrDimensions{Is: 0, Want: 3}},
		{[]float32{0, 0, 0}, vector.ErrZero},
		{[]float32{1, float32(math.NaN()), 0}, vector.ErrNotFinite},
		{[]float32{1, float32(math.Inf(1)), 0}, vector.ErrNotFinite},
	} {
		require.ErrorIs(t, x.Put(1, c.v), c.want)
		_, err := x.Nearest(c.v, 1)
		require.ErrorIs(t, err, c.want)
	}
	require.Zero(t, x.Len())
	require.NoError(t, x.Put(1, []float32{math.MaxFloat32, math.MaxFloat32, 0}), "large is not infinite")
	found, err := x.Nearest([]float32{1, 1, 0}, 1)
	require.NoError(t, err)
	require.InDelta(t, 1, found[0].Similarity, 1e-6)
}

// An index agrees with a map after any changes.
func TestIndex_EqualsAMapAfterChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, is, r := vector.New[int](8), map[int][]float32{}, random(rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(1, 300).Draw(t, "changes") {
			key := r.IntN(40)
			if r.IntN(3) == 0 {
				x.Delete(key)
				delete(is, key)
				continue
			}
			is[key] = gaussian(r, 8)
			require.NoError(t, x.Put(key, is[key]))
		}
		require.Equal(t, len(is), x.Len())
		for key, v := range is {
			found, err := x.Nearest(v, 1)
			require.NoError(t, err)
			require.Equal(t, key, found[0].Key)
		}
		found, err := x.Nearest(gaussian(r, 8), 1000)
		require.NoError(t, err)
		require.Len(t, found, len(is))
	})
}

// Of 20,000 vectors a search finds almost all neighbours, also if there is no structure; after half of
// them were removed, too.
func TestIndex_LargeOneFindsAlmostAll(t *testing.T) {
	t.Parallel()
	const dims, size = 96, 20_000
	r, x := random(1), vector.New[int](dims)
	for key := range size {
		require.NoError(t, x.Put(key, gaussian(r, dims)))
	}
	check := func() {
		var sum float64
		for range 40 {
			q := gaussian(r, dims)
			found, err := x.Nearest(q, 5)
			require.NoError(t, err)
			exact, err := x.Exact(q, 5)
			require.NoError(t, err)
			sum += recall(found, exact)
		}
		require.GreaterOrEqual(t, sum/40, 0.95)
	}
	check()
	for key := range size / 2 {
		x.Delete(2 * key)
	}
	require.Equal(t, size/2, x.Len())
	check()
}

// Searches and changes may happen at once.
func TestIndex_IsChangedWhileItIsSearched(t *testing.T) {
	t.Parallel()
	x, all := vector.New[int](16), sync.WaitGroup{}
	for worker := range 4 {
		all.Go(func() {
			r := random(uint64(worker))
			for range 2000 {
				key := r.IntN(6000)
				require.NoError(t, x.Put(key, gaussian(r, 16)))
				x.Delete(r.IntN(6000))
				_, err := x.Nearest(gaussian(r, 16), 3)
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
}
