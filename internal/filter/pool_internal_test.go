package filter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 3: payers take turns, however much one of them asks for.
func TestPool_PayersTakeTurns(t *testing.T) {
	t.Parallel()
	p := NewPool(Rates{})
	p.idle = 0 // nothing is evaluated: what would be next is asked below
	for _, who := range []string{"greedy", "greedy", "greedy", "greedy", "modest"} {
		p.Ask(t.Context(), Payer{Principal: who}, &Matcher{}, &sluice.Event{}, func(bool, error) {})
	}
	var order []string
	for range 5 {
		payer, a, _ := p.next(time.Now())
		require.NotNil(t, a)
		order = append(order, payer.Principal)
	}
	require.Equal(t, []string{"greedy", "modest", "greedy", "greedy", "greedy"}, order)
	require.Empty(t, p.lines)
	require.Empty(t, p.turns)
}

// Issue 13, attack 3: what was spent comes back with time, up to what may be spent in a tenth of a second.
func TestAccounts_RefillUpToATenthOfASecond(t *testing.T) {
	t.Parallel()
	s, now, p := newAccounts(Rates{Principal: 100, Namespace: 1000}), time.Now(), Payer{"a", "n"}
	require.Zero(t, s.owes(p, now))
	s.charge(p, 300, now)
	require.Greater(t, s.owes(p, now), 2*time.Second)
	require.Zero(t, s.owes(p, now.Add(3*time.Second)))
	s.charge(p, 10, now.Add(time.Hour))
	require.Positive(t, s.owes(p, now.Add(time.Hour)), "an hour saves no more than a tenth of a second")
	require.Zero(t, s.owes(Payer{"b", "n"}, now))
	s.charge(Payer{"", "m"}, 2000, now)
	require.Zero(t, s.owes(Payer{"a", "n"}, now.Add(2*time.Hour)))
	require.Positive(t, s.owes(Payer{"c", "m"}, now))
}

// Events that are not remembered any more are evaluated again, and the memory is bounded.
func TestSeen_IsBounded(t *testing.T) {
	t.Parallel()
	s := newSeen()
	first := s.of(&sluice.Event{Seq: 1})
	require.Same(t, first, s.of(&sluice.Event{Seq: 1}))
	require.NotSame(t, first, s.of(&sluice.Event{Seq: 1, ID: "of a log that was made again"}))
	for seq := range uint64(3 * seenEvents) {
		s.of(&sluice.Event{Seq: 2 + seq})
	}
	require.LessOrEqual(t, len(s.events), seenEvents)
	require.NotSame(t, first, s.of(&sluice.Event{Seq: 1}))
	for i := range 2 * seenVerdicts {
		first.enter(&expression{text: string(rune('a' + i))})
	}
	require.Len(t, first.verdicts, seenVerdicts)
}
