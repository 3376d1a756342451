package fairsem

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// players are runners that want places, as far as shares know them.
type players struct {
	all    *Shares
	bound  int
	shares []*Share
}

func newPlayers(bound, n int) *players {
	p := &players{all: New(bound), bound: bound}
	for range n {
		p.shares = append(p.shares, p.all.Join())
	}
	return p
}

// taken returns how many places a player works with.
func taken(s *Share) int {
	if s.granted {
		return s.held - 1
	}
	return s.held
}

// grab takes all that a player can get, at most most, and returns how many that are.
func grab(s *Share, most int) int {
	select {
	case <-s.freed:
	default:
	}
	n := 0
	for n < most && s.Take() {
		n++
	}
	return n
}

// check looks at what holds at any time: the bound, and that no holder sleeps that could work.
func (p *players) check(t require.TestingT) {
	sum := p.all.free
	for _, s := range p.shares {
		sum += s.held
		require.GreaterOrEqual(t, taken(s), 0)
		require.False(t, s.turn != nil && s.may(), "it waits for what it may have")
		require.False(t, s.granted && len(s.freed) == 0, "it was not told of its place")
	}
	require.Equal(t, p.bound, sum)
	require.GreaterOrEqual(t, p.all.free, 0)
}

func TestAcquire_FreePlaceNeedsNoWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlayers(rapid.IntRange(1, 12).Draw(rt, "bound"), rapid.IntRange(1, 6).Draw(rt, "players"))
		one := rapid.SampledFrom(p.shares)
		rt.Repeat(map[string]func(*rapid.T){
			"grab": func(rt *rapid.T) { grab(one.Draw(rt, "player"), rapid.IntRange(1, 20).Draw(rt, "most")) },
			"pass": func(rt *rapid.T) { one.Draw(rt, "player").Pass() },
			"give": func(rt *rapid.T) {
				if s := one.Draw(rt, "player"); taken(s) > 0 {
					s.Give()
				}
			},
			"": func(rt *rapid.T) { p.check(rt) },
		})
		for _, s := range p.shares {
			s.Pass()
			for taken(s) > 0 {
				s.Give()
			}
		}
		require.Equal(rt, p.bound, p.all.free, "everything comes back")
		require.Zero(rt, p.all.waiting.Len())
	})
}

// A newcomer finds a place, though earlier holders give none back.
func TestAcquire_NewcomerGetsAPlace(t *testing.T) {
	t.Parallel()
	p := newPlayers(1024, 6)
	for i, least := range []int{819, 160, 30, 6, 1, 1} {
		require.GreaterOrEqual(t, grab(p.shares[i], math.MaxInt), least)
		p.check(t)
	}
	small := newPlayers(2, 2)
	require.Equal(t, 1, grab(small.shares[0], math.MaxInt))
	require.Equal(t, 1, grab(small.shares[1], math.MaxInt))
	only := newPlayers(1, 1)
	require.Equal(t, 1, grab(only.shares[0], math.MaxInt), "one is better than none")
}

func TestShare_GreedyHoldersGetEqualShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(rt, "players")
		p := newPlayers(rapid.IntRange(n+1, 300).Draw(rt, "bound"), n)
		for _, s := range p.shares {
			grab(s, math.MaxInt)
		}
		for range 20 { // every request that is under way ends, and others are made
			for _, i := range rapid.Permutation(indexes(n)).Draw(rt, "order") {
				for range taken(p.shares[i]) {
					p.shares[i].Give()
					p.feed()
				}
				p.check(rt)
			}
		}
		least, most := math.MaxInt, 0
		for _, s := range p.shares {
			least, most = min(least, s.held), max(most, s.held)
		}
		require.LessOrEqual(rt, most-least, greed+1, "free: %d", p.all.free)
	})
}

// feed lets every holder that was given a place take it, and as many more as there are.
func (p *players) feed() {
	for _, s := range p.shares {
		if len(s.freed) > 0 {
			grab(s, math.MaxInt)
		}
	}
}

// More subscriptions than places: each has its turn, in the order in which they began to wait.
func TestPlaces_RotateInOrder(t *testing.T) {
	t.Parallel()
	p := newPlayers(2, 7)
	var order []int
	for i, s := range p.shares {
		if grab(s, 1) == 1 {
			order = append(order, i)
		}
	}
	for turn := 2; turn < 28; turn++ {
		p.shares[order[turn-2]].Give() // the one that had its turn the longest time ago
		grab(p.shares[order[turn-2]], 1)
		for i, s := range p.shares {
			if s.granted {
				grab(s, 1)
				order = append(order, i)
			}
		}
		require.Len(t, order, turn+1)
		require.Equal(t, turn%7, order[turn])
	}
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func BenchmarkShare(b *testing.B) {
	s := New(1024).Join()
	for b.Loop() {
		s.Take()
		s.Give()
	}
}
