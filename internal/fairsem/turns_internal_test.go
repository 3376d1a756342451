package fairsem

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One who waits, asks again, and is given a place: the answers in between are no, and the place is its own once.
func TestTake_AnswersAWaitingHolder(t *testing.T) {
	t.Parallel()
	s := New(1)
	a, b, c := s.Join(), s.Join(), s.Join()
	require.True(t, a.Take())
	require.False(t, b.Take())
	require.False(t, b.Take(), "it waits already")
	require.False(t, c.Take())
	require.Equal(t, 2, s.waiting.Len())
	a.Give()
	<-b.Freed()
	require.True(t, b.Take(), "the place that was granted")
	require.False(t, b.Take(), "and no second one")
	b.Give()
	<-c.Freed()
	require.Equal(t, []int{0, 0, 1, 0}, []int{a.held, b.held, c.held, s.free})
}

// A place that was granted and is not wanted goes to the next.
func TestPass_GivesOn(t *testing.T) {
	t.Parallel()
	s := New(1)
	a, b, c := s.Join(), s.Join(), s.Join()
	require.True(t, a.Take())
	require.False(t, b.Take())
	require.False(t, c.Take())
	a.Give()
	<-b.Freed()
	b.Pass()
	<-c.Freed()
	require.True(t, c.Take())
	b.Pass() // nothing is granted, and it does not wait
	require.Equal(t, []int{0, 1, 0}, []int{b.held, c.held, s.free})
}

// One who holds places gets more only while greed times one place fewer than are free is more than it holds.
func TestTake_LeavesRoom(t *testing.T) {
	t.Parallel()
	for free := 1; free <= 8; free++ {
		s := New(free)
		a := s.Join()
		for a.held == 0 || a.held < greed*(s.free-1) {
			require.True(t, a.Take(), "%d free, %d held", s.free, a.held)
		}
		require.False(t, a.Take(), "%d free, %d held", s.free, a.held)
	}
}
