package host

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A worker that crashes with several events makes all of them suspects, until one is found to be the cause.
func TestCrashes_ClearsSuspectsOnceTheCauseIsKnown(t *testing.T) {
	t.Parallel()
	c := newCrashes()
	require.False(t, c.mustBeAlone("a"))
	require.Equal(t, blameNone, c.crashed([]string{"a", "b", "c", "d"}))
	for _, event := range []string{"a", "b", "c", "d"} {
		require.True(t, c.mustBeAlone(event), event)
	}
	c.answered("a", sluice.Delivered)
	require.False(t, c.mustBeAlone("a"))
	require.True(t, c.mustBeAlone("d"), "the cause is not known yet")
	require.Equal(t, blameFails, c.crashed([]string{"b"}))
	require.False(t, c.mustBeAlone("c"))
	require.False(t, c.mustBeAlone("d"))
	require.True(t, c.mustBeAlone("b"), "its next attempt harms no other")
}

// An event is poison if a worker crashes at it twice, alone, and handles another in between: a worker that is broken altogether poisons
// none.
func TestCrashes_PoisonNeedsAWorkerThatWorks(t *testing.T) {
	t.Parallel()
	c := newCrashes()
	for range 5 {
		require.Equal(t, blameFails, c.crashed([]string{"a"}))
	}
	c.answered("b", sluice.Failed)
	require.Equal(t, blameFails, c.crashed([]string{"a"}), "to ask for another attempt is not to handle")
	c.answered("b", sluice.Delivered)
	require.Equal(t, blamePoison, c.crashed([]string{"a"}))
	require.Equal(t, blameFails, c.crashed([]string{"a"}), "a redrive begins anew")
	c.answered("a", sluice.Delivered)
	require.False(t, c.mustBeAlone("a"))
}

func TestCrashes_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	c := newCrashes()
	for i := range maxCrashes + 10 {
		require.Equal(t, blameFails, c.crashed([]string{strconv.Itoa(i)}))
	}
	require.Len(t, c.alone, maxCrashes)
	require.Len(t, c.order, maxCrashes)
	require.False(t, c.mustBeAlone("9"))
	require.True(t, c.mustBeAlone("10"))
}

// The next event goes to the worker with the fewest, and one that must be alone to one without any.
func TestPick_ChoosesTheWorker(t *testing.T) {
	t.Parallel()
	with := func(n int) *worker {
		w := &worker{ready: true, held: map[string]*item{}}
		for i := range n {
			w.held[strconv.Itoa(i)] = &item{}
		}
		return w
	}
	two, one, none := with(2), with(1), with(0)
	starting, leaving, single := with(0), with(0), with(1)
	starting.ready, leaving.leaves, single.alone = false, true, true
	for name, c := range map[string]struct {
		live  []*worker
		alone bool
		most  int
		want  *worker
	}{
		"the fewest":           {[]*worker{starting, leaving, single, two, one}, false, 3, one},
		"no place":             {[]*worker{two}, false, 2, nil},
		"none is ready":        {[]*worker{starting, leaving}, false, 2, nil},
		"beside one alone":     {[]*worker{single}, false, 2, nil},
		"alone":                {[]*worker{one, none}, true, 2, none},
		"alone, and none idle": {[]*worker{one, two}, true, 9, nil},
	} {
		require.Same(t, c.want, pick(c.live, c.alone, c.most), name)
	}
}
